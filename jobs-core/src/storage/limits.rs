//! Admission: makes held jobs available when their limits allow it.

use std::time::Duration;

use crate::job_id::JobId;
use crate::state::JobState;

/// What a pass of admission has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Another session admits at this moment, so nothing was done.
    pub is_busy: bool,
    /// How many jobs were admitted.
    pub admitted: usize,
    /// There is more to do at once.
    pub more: bool,
    /// A sweep has stopped before its end, so the next pass should sweep, too.
    pub sweep_again: bool,
    /// Whether there were held jobs. `None`: the pass did not look, because it did not sweep.
    pub holds: Option<bool>,
    /// How many jobs the database has refused to make available. They were set apart or discarded.
    pub refused: usize,
    /// How many jobs and keys admission leaves out for a while, because it has failed there. `worker doctor` says why.
    /// `None`: the pass did not look, because it did not sweep.
    pub failures: Option<i64>,
    /// The time until admission must look at a key again: the next token comes that a held job waits for, or a key that
    /// was left out is tried again.
    pub next_token: Option<Duration>,
    /// Waiting jobs have expired. Only a sweep searches for them.
    pub expired: bool,
    /// Jobs with [`OnFull`](crate::OnFull) are held. [`WaitEnd::LimitFull`] ends those whose limit is full.
    pub may_be_full: bool,
}

/// Why waiting jobs end. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// They have expired, and are cancelled. If a worker has claimed such a job, the worker cancels it.
    Expired,
    /// They are due and do not wait if their limit is full ([`OnFull`](crate::OnFull)). They are discarded, or the
    /// oldest jobs of their key are cancelled. It needs no lock of admission, because it skips as many jobs of each key
    /// as there are free permits or tokens.
    LimitFull,
}

/// A job that has ended while it waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWaiting {
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Whether it is discarded or cancelled.
    pub state: JobState,
}

/// What [`Storage::end_waiting`](super::Storage::end_waiting) has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The jobs that have ended.
    pub ended: Vec<EndedWaiting>,
    /// The jobs that the database has refused to end, each with the reason. They are left out for a while, and then
    /// tried again.
    pub refused: Vec<String>,
}

impl Ends {
    /// Adds a job that the database has refused to end.
    pub fn refuse(&mut self, id: JobId, kind: &str, queue: &str, problem: impl std::fmt::Display) {
        self.refused.push(format!("job {id} of kind `{kind}` in queue `{queue}` did not end: {problem}"));
    }
}

/// [`Storage::end_waiting`](super::Storage::end_waiting) ends about this many jobs at once.
pub const MOST_ENDED: usize = 1000;
