//! The answer to a poll.

use std::time::Duration;

/// What a worker without jobs learns from the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// The time until the first job is due, and zero if one is due.
    pub due: Option<Duration>,
    /// What else there is to do. `None`: the storage does not say. Then the services of an idle worker look for
    /// themselves, as often as those of a busy worker.
    pub upkeep: Option<Upkeep>,
    /// Whether a notification tells this worker of a change. If not, an idle worker reads the settings before it
    /// claims.
    pub is_notified: bool,
}

/// The work of the services, apart from what they do from time to time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// A [rescue](super::Storage::rescue) would find a dead worker, or a quarantined job that is due.
    pub rescue: bool,
    /// A sweep of [admission](super::Storage::admit) may find something to do.
    pub sweep: bool,
    /// The time until a rescue or a sweep will find something more.
    pub next: Option<Duration>,
    /// A job of any queue and kind has been due for [ten seconds](crate::health_checks::UNNOTICED). Only a count of all
    /// jobs says which ones, and whether a live worker serves them. A storage need not look at each poll.
    pub overdue: bool,
    /// There is an open [operation](super::OperationRecord).
    pub operation: bool,
    /// A number that is another one after a change of what operators have set, a schedule, or a rule for discarded
    /// jobs.
    pub settings: i64,
}
