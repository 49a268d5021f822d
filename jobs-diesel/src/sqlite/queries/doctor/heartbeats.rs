//! Heartbeats of the future: the clock has gone back. Such a worker counts as alive until the clock has come to that
//! time again.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "future_heartbeat",
    sql: r"select 'warning' as severity,
       'the last heartbeat of the worker on ' || host || ' (process ' || pid || ') is at ' || strftime('%Y-%m-%d %H:%M:%SZ', heartbeat_at / 1000000, 'unixepoch') || ', in the future: the clock of the machine has gone back' as what,
       'update jobs_worker set heartbeat_at = (cast(round(unixepoch(''subsec'') * 1000) as integer) * 1000) where id = ' || quote(id) as repair
from jobs_worker where heartbeat_at > (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) + 10000000",
};
