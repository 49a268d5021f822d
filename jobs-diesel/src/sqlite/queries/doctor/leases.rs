//! Running jobs whose workers are dead. Live workers rescue them.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "dead_lease",
    sql: r"select case when exists (select 1 from jobs_worker w where (w.heartbeat_at + w.lease_micros >= (cast(round(unixepoch('subsec') * 1000) as integer) * 1000))) then 'warning' else 'error' end as severity,
       'running jobs of a dead worker: ' || count(*) || '; the first is job ' || min(j.id) as what, 'worker run' as repair
from jobs_job j left join jobs_worker w on w.id = j.worker
where j.state = 'running' and (w.id is null or w.heartbeat_at + w.lease_micros + 10000000 < (cast(round(unixepoch('subsec') * 1000) as integer) * 1000))
group by j.worker",
};
