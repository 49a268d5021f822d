//! Transactions that are open for too long. Rows that were deleted since then stay in the tables and indexes, and
//! claims read past them. Without the role `pg_read_all_stats` only transactions of the own role are seen.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "old_transaction",
    sql: r"select case when xact_start < now() - interval '1 hour' then 'error' else 'warning' end as severity,
       format('process %s (%s, role %s) has had a transaction open since %s; deleted rows stay in the tables until it ends; its statement: %s',
              pid, coalesce(nullif(application_name, ''), 'no application name'), usename, to_char(xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ'), left(regexp_replace(query, E'\\s+', ' ', 'g'), 100)) as what,
       format('select pg_terminate_backend(%s)', pid) as repair
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type <> 'autovacuum worker'
  and xact_start < now() - interval '{transaction} seconds'
union all
select 'warning', format('the prepared transaction %L of %s was prepared at %s; deleted rows stay in the tables, and its locks stand, until it ends', gid, owner, to_char(prepared at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ')),
       format('rollback prepared %L', gid)
from pg_prepared_xacts where database = current_database() and prepared < now() - interval '{transaction} seconds'
union all
select 'warning', format('the replication slot %I is not in use, and keeps deleted rows and the write-ahead log on the disk', slot_name),
       format('select pg_drop_replication_slot(%L)', slot_name)
from pg_replication_slots where not active and (database = current_database() or xmin is not null)
union all
select 'skipped', format('the role %I sees only its own transactions', current_user), format('grant pg_read_all_stats to %I', current_user)
where not pg_has_role(current_user, 'pg_read_all_stats', 'usage')",
};
