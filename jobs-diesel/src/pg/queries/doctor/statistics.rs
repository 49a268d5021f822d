//! Tables of waiting jobs without statistics of their ids. A migration plants them, and a dump does not contain them.
//! The worker's statements do not depend on them, but joins of the application with `jobs.job` then read all rows.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "statistics",
    sql: r"select 'warning' as severity,
       format('the planner has no statistics of %s, as after a restore from a dump: until the table is analyzed, your own joins with jobs.job may read all jobs that wait in it', name) as what,
       format('analyze %s', name) as repair
from (values ('ready'), ('held')) as waiting (relname)
cross join lateral (select 'jobs.' || relname as name) as full_name
-- To look for a row would read all dead ones before it. A table that was analyzed while it was empty has no statistics either.
where (select pg_relation_size(c.oid) > 0 and c.reltuples <> 0 from pg_class c where c.oid = name::regclass) and has_table_privilege(name, 'SELECT')
  -- Its statistics would be hidden.
  and not row_security_active(name)
  and not exists (select from pg_stats s where s.schemaname = 'jobs' and s.tablename = relname and s.attname = 'id')",
};
