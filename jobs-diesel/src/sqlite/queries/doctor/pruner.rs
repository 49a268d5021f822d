//! Ended jobs whose retention has been over for an hour. Workers delete them.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "pruner_behind",
    sql: r"select 'warning' as severity, 'ended jobs that are kept an hour longer than their retention: ' || rows || '; no worker deletes them' as what,
       case when exists (select 1 from jobs_installation where frozen_at is not null) then 'worker thaw' else 'worker run' end as repair
from (select count(*) as rows from (select 1 from jobs_job where expires_at < (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) - 3600000000 limit 10001)) where rows > 0",
};
