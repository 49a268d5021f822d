//! Ended jobs whose retention has been over for an hour. Workers delete them.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "pruner_behind",
    sql: r"select 'warning' as severity,
       format('ended jobs that are kept an hour longer than their retention: %s%s; no worker deletes them, or a foreign key refers to them', least(rows, 10000), case when rows > 10000 then '+' else '' end) as what,
       case when exists (select from jobs.installation where frozen_at is not null) then 'worker thaw' else 'worker run' end as repair
from (select count(*) as rows from (select from jobs.finished where expires_at < now() - interval '1 hour' limit 10001) expired) counted
where rows > 0",
};
