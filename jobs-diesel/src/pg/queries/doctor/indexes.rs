//! Invalid indexes: a build or rebuild of the index was interrupted.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "invalid_index",
    sql: r"select 'error' as severity,
       format('the index jobs.%I is invalid, so no query uses it, and every write still pays for it', c.relname) as what,
       case when c.relname ~ '_ccnew[0-9]*$' then format('drop index jobs.%I', c.relname)
            else format('reindex index concurrently jobs.%I', c.relname) end as repair
from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobs' and not (i.indisvalid and i.indisready)",
};
