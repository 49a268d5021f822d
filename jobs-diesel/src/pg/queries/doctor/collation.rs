//! The version of the collation by which the database sorts. If a newer operating system sorts differently, indexes on
//! text that were built before miss rows. Ours are sorted by bytes (`collate "C"`), the application's usually are not.
//! The server has this version from PostgreSQL 15 on.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "collation",
    sql: r"select 'warning' as severity,
       format('the indexes of this database were built with version %s of its collation, and the server has version %s: where it sorts differently, indexes on '
              'text of the application may miss rows; the indexes of jobs are not affected', datcollversion, actual) as what,
       format('reindex database %I; then: alter database %I refresh collation version', datname, datname) as repair
from pg_database cross join lateral (select pg_database_collation_actual_version(oid) as actual) as server
where datname = current_database() and datcollversion <> actual",
};
