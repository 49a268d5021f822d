//! Waking: a notification tells sleeping workers that their queues have work. Silent while none of a queue's workers sleeps: NOTIFY
//! takes a lock that all committing transactions of the server share.

/// The channel.
pub(crate) const CHANNEL: &str = "jobs";

/// Whether anybody would hear it who serves `queue`, and may: a transaction that notified cannot be prepared for a two-phase
/// commit, so whoever prepares one sets `jobs.notify` to `off`. Reads the few rows of `jobs.worker`.
pub(crate) const SOMEBODY_SLEEPS: &str = "current_setting('jobs.notify', true) is distinct from 'off' \
    and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(queue) & 1023) = 1)";
