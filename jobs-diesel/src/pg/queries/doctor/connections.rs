//! Connections that are in use, of those that the server allows.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "connections",
    sql: r"select 'warning' as severity, format('%s of the %s connections that the server allows are in use', used, allowed) as what,
       format('end idle sessions, use a pooler, or: alter system set max_connections = %s (the server must be restarted)', 2 * allowed) as repair
from (
    select count(*) as used, current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint as allowed
    from pg_stat_activity where backend_type = 'client backend'
) counted
where used > 0.8 * allowed",
};
