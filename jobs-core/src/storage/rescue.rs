//! The rescue: its input, the decision on each job of a dead worker, and its result.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::outcome::Retention;

/// How the jobs of dead workers are treated.
#[derive(Clone, Copy, Debug)]
pub struct RescuePolicy {
    /// A job is discarded at this many counted crashes, if it was its worker's only job at the last one. A crash with
    /// other jobs present is not counted beyond [`quarantined_at`](Self::quarantined_at).
    pub max_crashes: u16,
    /// How long a job that the rescue discards stays readable.
    pub retention: Retention,
    /// Whether to rescue also orphans: running jobs whose worker has no row. There are three causes. A claim ran at the
    /// same time as the rescue of its worker. A rescue passed over the locked row of the job. Or the worker
    /// deregistered before it finished the job. On PostgreSQL this reads every running job. SQLite rescues orphans in
    /// every rescue.
    pub orphans: bool,
    /// The worker that rescues. `None` for a caller that has no heartbeat.
    pub rescuer: Option<Rescuer>,
}

/// The newest heartbeat of the rescuing worker. A rescue compares it with that worker's row. If the row looks older
/// than the heartbeat can be, the database's clock has jumped or the database stood still. Then the rows of all other
/// workers look too old, too, so no worker is declared dead.
#[derive(Clone, Copy, Debug)]
pub struct Rescuer {
    /// The id of the rescuing worker.
    pub worker: WorkerId,
    /// The time of its newest heartbeat, by the database's clock.
    pub beat: DateTime<Utc>,
    /// The greatest age that this heartbeat can have, by the worker's own clock.
    pub age: Duration,
}

impl RescuePolicy {
    /// From this many counted crashes on, a job is quarantined. A further crash while it runs alone discards it.
    pub fn quarantined_at(&self) -> u16 {
        self.max_crashes.saturating_sub(1).max(1)
    }

    /// Decides about a running job whose worker died.
    ///
    /// A worker that was stopping was most probably killed because it took too long, and its jobs have not caused that.
    /// So the job is released, as by the worker itself: neither an attempt nor a crash is counted. But a job may make
    /// its supervisor stop and kill the worker each time, for example because it takes all memory. So this applies to
    /// the first [`MOST_KILLS`] such deaths of a job, and a later one counts as a crash.
    ///
    /// If the worker had several jobs, it is unknown which one caused
    /// the crash. So a job is discarded for its crashes only if it was the worker's only job. Otherwise it is
    /// quarantined at most. Any job whose last attempt ended in the crash is discarded.
    ///
    /// On PostgreSQL the statement of the rescue makes the same decision.
    pub fn decide(&self, job: Crashed) -> RescueDecision {
        if job.kills.is_some_and(|earlier| earlier < MOST_KILLS) {
            let (crashes, quarantined) = (job.crashes, job.crashes >= self.quarantined_at());
            return RescueDecision { crashes, discard_reason: None, quarantined, released: true };
        }
        let counted = job.crashes.saturating_add(1);
        let crashes = if job.alone { counted } else { counted.min(self.quarantined_at()).max(job.crashes) };
        let discard_reason = if job.alone && crashes >= self.max_crashes {
            Some(CRASHED_TOO_OFTEN)
        } else if job.attempt >= job.max_attempts {
            Some(NO_ATTEMPT_LEFT)
        } else {
            None
        };
        RescueDecision {
            crashes,
            discard_reason,
            quarantined: discard_reason.is_none() && crashes >= self.quarantined_at(),
            released: false,
        }
    }
}

/// The reason for a job that has `max_crashes` counted crashes and was alone in its process at the last one.
pub const CRASHED_TOO_OFTEN: &str = "it has reached its maximum of crashes";
/// The reason for a job whose last attempt ended in a crash.
pub const NO_ATTEMPT_LEFT: &str = "no attempt is left";
/// A part of the failure's text if the job is quarantined now.
pub const RUNS_ALONE: &str = "; next time it runs alone";

/// How often a job is released because its worker was killed while it was stopping. After that, such a death counts as
/// a crash.
pub const MOST_KILLS: u16 = 25;
/// A part of the text of such a release.
pub const WAS_KILLED: &str = " was killed while it was stopping; the job was released, and no attempt was consumed";
/// A part of the failure's text if the worker was stopping, and [`MOST_KILLS`] others before it were, too.
pub const KILLED_TOO_OFTEN: &str =
    " while the worker was stopping, which counts as a crash because it has happened too often";

/// A running job whose worker died.
#[derive(Clone, Copy, Debug)]
pub struct Crashed {
    /// The attempt that ended in the crash.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// How many crashes were counted before this one.
    pub crashes: u16,
    /// Whether it was the only job of its worker when that died.
    pub alone: bool,
    /// If the worker was stopping: how often the job was released before because its worker was killed.
    pub kills: Option<u16>,
}

/// The decision about a job after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RescueDecision {
    /// How many crashes are counted now.
    pub crashes: u16,
    /// The reason, if the job is discarded. Otherwise it waits again.
    pub discard_reason: Option<&'static str>,
    /// Whether the job waits again, and must run alone.
    pub quarantined: bool,
    /// Whether the job is released: it waits again, and its attempt is not counted.
    pub released: bool,
}

/// How many quarantined jobs may run at the same time, each alone in its process: one per four workers, and at least
/// one. The other workers run other jobs.
pub fn quarantined_at_once(workers: i64) -> i64 {
    (workers / WORKERS_FOR_A_QUARANTINED_JOB).max(1)
}

/// One of this many workers may run a quarantined job.
pub const WORKERS_FOR_A_QUARANTINED_JOB: i64 = 4;

/// A quarantined job that was claimed longer ago than this no longer counts towards that limit.
pub const QUARANTINED_COUNTS: Duration = Duration::from_secs(120);

/// The result of a rescue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Jobs that were made available again, with an attempt and a crash more.
    pub returned: Vec<JobId>,
    /// Jobs that were made available again as by a release, because their worker was killed while it was stopping.
    pub released: Vec<JobId>,
    /// Jobs that were discarded: too many crashes, or no attempt left.
    pub discarded: Vec<JobId>,
    /// What ended with the workers: an attempt of each of these jobs. A released job has no such attempt.
    pub attempts: Vec<CrashedAttempt>,
    /// The jobs that the database has refused to move, each with the reason. They are left out for a while, and then
    /// tried again. Until then the row of their worker stays.
    pub refused: Vec<String>,
    /// Whether quarantined jobs are due, from this rescue or from an earlier one. All queues and kinds count, also
    /// those that are not served here.
    pub quarantined_due: bool,
    /// Some rows were locked. Their jobs must still be rescued, as [orphans](RescuePolicy::orphans).
    pub left_behind: bool,
    /// The row of the [`Rescuer`] itself looked too old, so no worker was declared dead.
    pub held_off: bool,
    /// The row of the [`Rescuer`] has a newer heartbeat than it knew of, so no worker was declared dead. A later
    /// rescue, which knows that heartbeat, can do it.
    pub has_beaten: bool,
}

impl Rescued {
    /// Adds a job that the database has refused to move.
    pub fn refuse(&mut self, id: JobId, kind: &str, queue: &str, problem: impl std::fmt::Display) {
        self.refused.push(format!(
            "job {id} of kind `{kind}` in queue `{queue}`, whose worker died, was not rescued: {problem}"
        ));
    }
}

/// An attempt that ended because its worker died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashedAttempt {
    /// The queue of its job.
    pub queue: String,
    /// The kind of its job.
    pub kind: String,
    /// Whether the job was discarded. Otherwise it waits for another attempt.
    pub discarded: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RescuePolicy =
        RescuePolicy { max_crashes: 3, retention: Retention::DEFAULT, orphans: false, rescuer: None };
    const FIRST: Crashed = Crashed { attempt: 1, max_attempts: 25, crashes: 0, alone: true, kills: None };

    #[test]
    fn a_job_is_quarantined_before_its_last_crash_and_discarded_only_if_it_was_alone() {
        let decide = |crashes, alone| POLICY.decide(Crashed { crashes, alone, ..FIRST });
        let waits =
            |crashes, quarantined| RescueDecision { crashes, discard_reason: None, quarantined, released: false };
        assert_eq!([decide(0, true), decide(0, false)], [waits(1, false); 2]);
        assert_eq!([decide(1, true), decide(1, false)], [waits(2, true); 2]);
        assert_eq!(decide(2, false), waits(2, true), "beside other jobs it is quarantined at most");
        assert_eq!(decide(2, true).discard_reason, Some(CRASHED_TOO_OFTEN));
        assert_eq!(decide(7, false), waits(7, true), "an earlier count never falls");
    }

    #[test]
    fn a_crash_of_the_last_attempt_discards_beside_other_jobs_too() {
        for alone in [true, false] {
            let decision = POLICY.decide(Crashed { max_attempts: 1, alone, ..FIRST });
            assert_eq!(
                decision,
                RescueDecision {
                    crashes: 1,
                    discard_reason: Some(NO_ATTEMPT_LEFT),
                    quarantined: false,
                    released: false
                }
            );
        }
    }

    #[test]
    fn a_kill_while_the_worker_stops_releases_the_job_and_does_so_a_limited_number_of_times() {
        for alone in [true, false] {
            let last_attempt = Crashed { max_attempts: 1, crashes: 2, alone, ..FIRST };
            let released = RescueDecision { crashes: 2, discard_reason: None, quarantined: true, released: true };
            for kills in [0, MOST_KILLS - 1] {
                assert_eq!(POLICY.decide(Crashed { kills: Some(kills), ..last_attempt }), released);
            }
            let too_often = Crashed { kills: Some(MOST_KILLS), ..last_attempt };
            assert_eq!(POLICY.decide(too_often), POLICY.decide(last_attempt));
        }
    }
}
