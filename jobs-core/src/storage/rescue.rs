//! How the jobs of dead workers are freed, and what that came to.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::job::JobId;
use crate::lease::WorkerId;
use crate::outcome::Retention;

/// How the jobs of dead workers are treated.
#[derive(Clone, Copy, Debug)]
pub struct RescuePolicy {
    /// A job whose worker died with it this often is discarded; the last time it must have been the worker's only one.
    pub max_crashes: u16,
    /// How long such a job stays readable.
    pub retention: Retention,
    /// Also free jobs whose worker is not on the list at all, because a claim met the rescue of its worker. That takes a
    /// look at every running job.
    pub orphans: bool,
    /// The worker that rescues; `None` for somebody who has no heartbeat.
    pub rescuer: Option<Rescuer>,
}

/// What a worker that rescues knows about its own heartbeat. If its own row looks older than that, the clock of the database
/// has moved or the database stood still, and the rows of all others look older, too: then nobody is declared dead.
#[derive(Clone, Copy, Debug)]
pub struct Rescuer {
    /// Its id.
    pub worker: WorkerId,
    /// The time of its newest beat, by the database's clock.
    pub beat: DateTime<Utc>,
    /// The most that this beat may be old, by the worker's own clock.
    pub age: Duration,
}

impl RescuePolicy {
    /// From so many crashes on a job is quarantined: one more, with nobody else there to blame, and it is discarded.
    pub fn quarantined_at(&self) -> u16 {
        self.max_crashes.saturating_sub(1).max(1)
    }
}

/// How many quarantined jobs may run at the same time, each alone in its process: most workers are to go on with everything else,
/// and at least one quarantined job is to get on.
pub fn quarantined_at_once(workers: i64) -> i64 {
    (workers / WORKERS_FOR_A_QUARANTINED_JOB).max(1)
}

/// Of so many workers one may have a quarantined job.
pub const WORKERS_FOR_A_QUARANTINED_JOB: i64 = 4;

/// What a rescue found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Jobs that wait again.
    pub returned: Vec<JobId>,
    /// Jobs that were discarded: too many crashes, or no attempt left.
    pub discarded: Vec<JobId>,
    /// Whether quarantined jobs are due, from this rescue or from an earlier one; of whatever queue and kind, served here or not.
    pub quarantined: bool,
    /// Some rows were locked, and their jobs are still to be freed: as [orphans](RescuePolicy::orphans).
    pub left_behind: bool,
    /// The row of the [`Rescuer`] itself looked too old: nobody was declared dead.
    pub held_off: bool,
}
