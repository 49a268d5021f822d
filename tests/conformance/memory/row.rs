//! A stored job, and how it changes.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::{Claim, MAX_ERRORS_PER_JOB, RUNS_ALONE, RescueDecision, WAS_KILLED, WorkerInfo};
use diesel_jobs_core::{
    AttemptError, ClaimedJob, Failure, FailureKind, JobId, JobRecord, JobState, Keep, Lease, NewJob, Transition,
    WorkerId,
};

/// The time after this delay. Endless ones are a hundred years.
fn after(now: DateTime<Utc>, delay: Duration) -> DateTime<Utc> {
    now + TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX).min(TimeDelta::days(36_500))
}

pub(super) struct Row {
    /// While the job waits, its state is `Available`.
    pub(super) job: JobRecord,
    pub(super) errors: Vec<AttemptError>,
    pub(super) delete_at: Option<DateTime<Utc>>,
    number: i32,
}

impl Row {
    pub(super) fn new(id: JobId, job: NewJob, now: DateTime<Utc>) -> Self {
        let (delay, at) = job.run_at.parts();
        let delayed = delay.map(|delay| after(now, delay));
        let job = JobRecord {
            id,
            kind: job.kind.into_owned(),
            queue: job.queue.into_owned(),
            state: JobState::Available,
            priority: job.priority,
            attempt: 0,
            max_attempts: job.max_attempts,
            crashes: 0,
            run_at: delayed.into_iter().chain(at).max().unwrap_or(now),
            enqueued_at: now,
            claimed_at: None,
            finished_at: None,
            worker: None,
            tags: job.tags,
            args: job.args,
            last_error: None,
            flags: 0,
            traceparent: job.traceparent.clone(),
            rules: job.rules,
        };
        Self { job, errors: Vec::new(), delete_at: None, number: 0 }
    }

    pub(super) fn waits(&self) -> bool {
        self.job.state == JobState::Available
    }

    pub(super) fn is_quarantined(&self, claim: &Claim) -> bool {
        self.job.crashes >= claim.quarantined_at
    }

    /// Whether one more crash may end it.
    pub(super) fn is_at_risk(&self) -> bool {
        self.job.crashes > 0 || self.job.attempt + 1 >= self.job.max_attempts
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        let worker = self.job.worker.filter(|_| self.job.state == JobState::Running)?;
        Some(Lease { job: self.job.id, number: self.number, worker })
    }

    /// How often its worker was killed while it was stopping.
    pub(super) fn kills(&self) -> u16 {
        let kills = self.errors.iter().filter(|error| error.kind == FailureKind::Killed).count();
        kills.try_into().unwrap_or(u16::MAX)
    }

    pub(super) fn start(&mut self, worker: WorkerId, now: DateTime<Utc>) -> ClaimedJob {
        self.number += 1;
        let job = &mut self.job;
        job.attempt += 1;
        (job.state, job.worker, job.claimed_at) = (JobState::Running, Some(worker), Some(now));
        ClaimedJob {
            lease: Lease { job: job.id, number: self.number, worker },
            flags: Default::default(),
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            priority: job.priority,
            args: job.args.clone().into_bytes(),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            run_at: job.run_at,
            enqueued_at: job.enqueued_at,
            claimed_at: now,
            traceparent: job.traceparent.clone(),
            start_by: None,
        }
    }

    /// Returns `false` if the row is to be deleted.
    pub(super) fn finish(&mut self, transition: &Transition, now: DateTime<Utc>) -> bool {
        if let Some(failure) = transition.failure() {
            self.record(failure, now);
        }
        match transition {
            Transition::Complete(keep) | Transition::CompleteWith(keep, _) => {
                return self.end(JobState::Completed, *keep, now);
            }
            Transition::Cancel { keep, .. } => return self.end(JobState::Cancelled, *keep, now),
            Transition::Discard { keep, .. } => return self.end(JobState::Discarded, *keep, now),
            Transition::Retry { delay, .. } => self.wait_until(after(now, *delay)),
            Transition::Snooze(delay) => {
                (self.job.attempt, self.job.crashes) = (self.job.attempt - 1, 0);
                self.wait_until(after(now, *delay));
            }
            Transition::Release => {
                self.job.attempt -= 1;
                self.wait_until(self.job.run_at);
            }
        }
        true
    }

    pub(super) fn rescue(&mut self, worker: &WorkerInfo, decision: RescueDecision, keep: Keep, now: DateTime<Utc>) {
        let WorkerInfo { id, pid, host, .. } = worker;
        let is_killed = decision.released;
        let what = match decision.discard_reason {
            _ if is_killed => WAS_KILLED.to_owned(),
            Some(reason) => format!(" died with the job; discarded: {reason}"),
            None if decision.quarantined => format!(" died with the job{RUNS_ALONE}"),
            None => " died with the job".to_owned(),
        };
        let kind = if is_killed { FailureKind::Killed } else { FailureKind::Crash };
        self.record(&Failure::new(kind, &format!("worker {id} (process {pid} on {host}){what}")), now);
        self.job.crashes = decision.crashes;
        match decision.discard_reason {
            Some(_) => drop(self.end(JobState::Discarded, keep, now)),
            None => {
                self.job.attempt -= u16::from(is_killed);
                self.wait_until(self.job.run_at);
            }
        }
    }

    fn wait_until(&mut self, run_at: DateTime<Utc>) {
        let job = &mut self.job;
        (job.state, job.run_at, job.worker, job.claimed_at) = (JobState::Available, run_at, None, None);
    }

    fn end(&mut self, state: JobState, keep: Keep, now: DateTime<Utc>) -> bool {
        (self.job.state, self.job.finished_at) = (state, Some(now));
        self.delete_at = if let Keep::For(time) = keep { Some(after(now, time)) } else { None };
        keep != Keep::Nothing
    }

    fn record(&mut self, failure: &Failure, now: DateTime<Utc>) {
        self.job.last_error = Some(failure.message.clone());
        self.errors.drain(..(self.errors.len() + 1).saturating_sub(MAX_ERRORS_PER_JOB as usize));
        self.errors.push(AttemptError {
            attempt: self.job.attempt,
            kind: failure.kind,
            message: failure.message.clone(),
            worker: self.job.worker,
            started_at: self.job.claimed_at,
            at: now,
            fingerprint: Some(failure.fingerprint),
            place: failure.place.clone(),
            backtrace: failure.backtrace.clone(),
            actor: None,
        });
    }
}
