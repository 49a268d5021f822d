//! Heartbeats of the future: the database's clock has gone back. Such a worker counts as alive until the clock has come
//! to that time again.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "future_heartbeat",
    sql: r"select 'warning' as severity,
       format('the last heartbeat of the worker on %s (process %s) is at %s, in the future: the clock of the database has gone back', host, pid, heartbeat_at) as what,
       format('update jobs.worker set heartbeat_at = now() where id = %L', id) as repair
from jobs.worker where heartbeat_at > now() + interval '10 seconds'",
};
