//! Waiting jobs that were in crashes of their workers.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "crash_loop",
    sql: r"select 'warning' as severity, 'job ' || id || ' of kind `' || kind || '` was in ' || case when crashes = 1 then 'a crash' else crashes || ' crashes' end || ' of its workers, and waits for its next attempt' as what,
       'worker show ' || id || ', then worker cancel ' || id as repair
from jobs_job where state = 'available' and crashes > 0 order by crashes desc limit 20",
};
