//! How the jobs of dead workers are freed, and what the result is.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::job::JobId;
use crate::lease::WorkerId;
use crate::outcome::Retention;

/// How the jobs of dead workers are treated.
#[derive(Clone, Copy, Debug)]
pub struct RescuePolicy {
    /// A job whose worker died with it this many times is discarded. The last time it must have been the worker's only
    /// job.
    pub max_crashes: u16,
    /// How long such a job stays readable.
    pub retention: Retention,
    /// Also free jobs whose worker is not on the list at all. They arise if a claim runs at the same time as the rescue
    /// of its worker. This has to read every running job.
    pub orphans: bool,
    /// The worker that rescues. `None` for a caller that has no heartbeat.
    pub rescuer: Option<Rescuer>,
}

/// What a rescuing worker knows about its own heartbeat. If its own row looks older than that, the clock of the
/// database has jumped or the database stood still. Then the rows of all other workers look older, too, so no worker is
/// declared dead.
#[derive(Clone, Copy, Debug)]
pub struct Rescuer {
    /// Its id.
    pub worker: WorkerId,
    /// The time of its newest beat, by the database's clock.
    pub beat: DateTime<Utc>,
    /// The greatest age that this beat can have, by the worker's own clock.
    pub age: Duration,
}

impl RescuePolicy {
    /// From this many crashes on, a job is quarantined. After one more crash, alone in its process, it is discarded.
    pub fn quarantined_at(&self) -> u16 {
        self.max_crashes.saturating_sub(1).max(1)
    }
}

/// How many quarantined jobs may run at the same time, each alone in its process. Most workers must go on with other
/// jobs, and at least one quarantined job must be able to run.
pub fn quarantined_at_once(workers: i64) -> i64 {
    (workers / WORKERS_FOR_A_QUARANTINED_JOB).max(1)
}

/// One of this many workers may run a quarantined job.
pub const WORKERS_FOR_A_QUARANTINED_JOB: i64 = 4;

/// The result of a rescue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Jobs that are waiting again.
    pub returned: Vec<JobId>,
    /// Jobs that were discarded: too many crashes, or no attempt left.
    pub discarded: Vec<JobId>,
    /// Whether quarantined jobs are due, from this rescue or from an earlier one. All queues and kinds count, also
    /// those that are not served here.
    pub quarantined: bool,
    /// Some rows were locked. Their jobs must still be freed, as [orphans](RescuePolicy::orphans).
    pub left_behind: bool,
    /// The row of the [`Rescuer`] itself looked too old, so no worker was declared dead.
    pub held_off: bool,
}
