//! Autovacuum of our tables: switched off, or far behind.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "autovacuum",
    sql: r"select 'error' as severity, format('the setting %s is off, so deleted rows are never removed', name) as what,
       format('alter system set %s = on', name) as repair
from pg_settings where name in ('autovacuum', 'track_counts') and setting = 'off'
union all
select 'error', format('autovacuum is switched off for jobs.%I, so deleted rows are never removed', c.relname),
       format('alter table jobs.%I reset (autovacuum_enabled)', c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobs' and c.reloptions @> array['autovacuum_enabled=false'] or n.nspname = 'jobs' and c.reloptions @> array['autovacuum_enabled=off']
union all
select 'warning', format('jobs.%I has %s dead rows beside %s live ones, so autovacuum is far behind', relname, n_dead_tup, n_live_tup), format('vacuum jobs.%I', relname)
from pg_stat_user_tables where schemaname = 'jobs' and n_dead_tup > 200000 and n_dead_tup > 3 * n_live_tup",
};
