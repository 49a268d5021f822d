//! The age of the oldest transaction number, and of the oldest multixact, which several transactions that lock one row
//! share. Each has a counter of its own. At two billions the server takes no more writes.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "wraparound",
    sql: r"select case when age > 1600000000 then 'error' else 'warning' end as severity,
       format('the oldest %s of the database has an age of %s; at 2,000,000,000 the server takes no more writes', counted, age) as what,
       'vacuum (freeze)' as repair
from pg_database cross join lateral (values ('transaction number', age(datfrozenxid)), ('multixact', mxid_age(datminmxid))) as oldest (counted, age)
where datname = current_database() and age > 1000000000",
};
