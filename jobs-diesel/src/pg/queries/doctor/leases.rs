//! Running jobs whose workers are dead. Live workers rescue them.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "dead_lease",
    sql: r"select case when exists (select from jobs.worker where heartbeat_at >= now() - lease) then 'warning' else 'error' end as severity,
       format('running jobs of a dead worker (%s): %s; the first is job %s', coalesce(w.host || ', process ' || w.pid, 'not registered: ' || r.worker), count(*), min(r.id)) as what,
       'worker run' as repair
from jobs.running r left join jobs.worker w on w.id = r.worker
where w.id is null and r.claimed_at < now() - interval '1 minute' or w.heartbeat_at < now() - w.lease - interval '10 seconds'
group by w.id, r.worker",
};
