//! Notifications of idle workers when their queues have jobs. None is sent while no worker of the queue is idle,
//! because `NOTIFY` takes a lock that all committing transactions of the server share.

/// The channel of the notifications.
pub(crate) const CHANNEL: &str = "jobs";

/// The condition that an idle worker may serve `queue`, and that notifications are not off. A transaction that has sent
/// a notification cannot be prepared for a two-phase commit. So an application that prepares a transaction sets
/// `jobs.notify` to `off`. Reads the few rows of `jobs.worker`.
pub(crate) const A_WORKER_IS_IDLE: &str = "current_setting('jobs.notify', true) is distinct from 'off' \
    and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(queue) & 1023) = 1)";

/// Notifies the workers that admit held jobs, if any worker is idle. A notification without a queue is for them. The value is null if
/// none was sent.
pub(crate) const ADMISSION_WOKEN: &str = "case when current_setting('jobs.notify', true) is distinct from 'off' \
    and exists (select from jobs.worker where idle) then pg_notify('jobs', '') end";
