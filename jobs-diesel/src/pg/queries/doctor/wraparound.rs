//! The age of the oldest transaction number. At two billions the server takes no more writes.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "wraparound",
    sql: r"select case when age(datfrozenxid) > 1600000000 then 'error' else 'warning' end as severity,
       format('the oldest transaction number of the database has an age of %s; at 2,000,000,000 the server takes no more writes', age(datfrozenxid)) as what,
       'vacuum (freeze)' as repair
from pg_database where datname = current_database() and age(datfrozenxid) > 1000000000",
};
