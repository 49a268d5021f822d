//! Waiting jobs that were in crashes of their workers.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "crash_loop",
    sql: r"select 'warning' as severity,
       format('job %s of kind `%s` was in %s of its workers, and waits for its next attempt', id, kind, case when crashes = 1 then 'a crash' else crashes || ' crashes' end) as what,
       format('worker show %s, then worker cancel %s', id, id) as repair
from jobs.ready where crashes > 0 order by crashes desc limit 20",
};
