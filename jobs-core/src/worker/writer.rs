//! What the completer does with a batch. It writes the batch, however long the database is unreachable. If the database
//! is reachable but refuses a finish, the writer sets that finish aside, writes the others and tries it again later. If
//! one finish is refused, usually all are, for a while (a read-only standby, a missing right, a quota). The work of the
//! handlers must not be undone because of that. A finish whose row is locked by another session is set aside, too
//! ([`locked`](super::locked)). No finish waits for a lock.

mod discarding;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::locked::Locked;
use super::report::{BATCH, Report};
use super::shared::Shared;
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::job_id::JobId;
use crate::lease::{Lease, WorkerId};
use crate::outcome::Finish;
use crate::storage::StorageResult;
use crate::telemetry::RateLimitedWarning;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// After this many refusals in a row, no more finishes are tried one by one until a pause is over.
const IN_A_ROW: u32 = 3;
/// While this many refused finishes are set aside, no more finishes are taken in. Finishes whose rows are locked do not
/// count.
const MOST_REFUSED: usize = 2 * BATCH;
/// If a finish was refused this many times, each time after others had been accepted, the finish itself is the cause.
const TIMES_ALONE: u32 = 5;
/// The job of such a finish is discarded after this many lease durations.
const LEASES_IF_ALONE: u32 = 4;
/// The job of any other refused finish is discarded after this many lease durations, even if no other finish was
/// accepted meanwhile.
const LEASES_IF_ALL_REFUSED: u32 = 40;

/// A finish that was refused.
struct Refused {
    report: Report,
    since: Instant,
    /// How many times it was refused after other finishes had been accepted in between.
    times_alone: u32,
    /// The value of [`Writer::accepted`] when it was refused last.
    accepted_before: u64,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    warning: RateLimitedWarning,
    /// The finishes that were not tried alone yet come first, because the database may accept them.
    refused: VecDeque<Refused>,
    locked: Locked,
    /// The releases of jobs that a finish has claimed and that cannot run here.
    unwanted: Vec<Report>,
    /// How many jobs the last statement has claimed, and how long it took.
    claimed: Option<(usize, Duration)>,
    /// How many statements the database has accepted.
    accepted: u64,
    pause: Duration,
    /// When the refused finishes are tried again.
    again: Instant,
    refused_in_a_row: u32,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (warning, refused, again) = (RateLimitedWarning::new("finish"), VecDeque::new(), Instant::now());
        let (locked, unwanted, claimed) = (Locked::new(), Vec::new(), None);
        Self {
            shared,
            warning,
            refused,
            locked,
            unwanted,
            claimed,
            accepted: 0,
            pause: FIRST_PAUSE,
            again,
            refused_in_a_row: 0,
        }
    }

    /// Whether more finishes may be taken in. Only refused finishes count, not those whose rows are locked.
    pub(super) fn has_room(&self) -> bool {
        self.refused.len() < MOST_REFUSED
    }

    /// If the last statement has claimed jobs: how many, and how long it took.
    pub(super) fn has_claimed(&self) -> Option<(usize, Duration)> {
        self.claimed
    }

    /// How many attempts have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.shared.leases.count()
    }

    /// Waits until a finish that was set aside should be tried again. Waits for ever if there is none.
    pub(super) async fn until_again(&self) {
        let refused = (!self.refused.is_empty()).then_some(self.again);
        match refused.into_iter().chain(self.locked.again()).min() {
            Some(again) => tokio::time::sleep_until(again.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Writes a batch. If the batch is refused, its finishes are tried one by one, so that one of them does not block
    /// the others.
    pub(super) async fn write(&mut self, reports: Vec<Report>) {
        self.write_batch(reports).await;
        self.release_unwanted().await;
    }

    async fn release_unwanted(&mut self) {
        while !self.unwanted.is_empty() {
            let releases = std::mem::take(&mut self.unwanted);
            self.write_batch(releases).await;
        }
    }

    async fn write_batch(&mut self, reports: Vec<Report>) {
        crash_point(if reports.len() > 1 { "finish-batch" } else { "finish-one" });
        match self.finish(&reports).await {
            Ok(locked) => {
                locked.into_iter().for_each(|report| self.locked.add(report, Instant::now()));
                crash_point("finished");
            }
            Err(_) => self.set_aside(reports).await,
        }
    }

    async fn set_aside(&mut self, reports: Vec<Report>) {
        let (one, none_before) = (reports.len() == 1, self.refused.is_empty());
        let (since, accepted_before) = (Instant::now(), self.accepted);
        let refused = reports.into_iter().map(|report| Refused { report, since, times_alone: 0, accepted_before });
        if one {
            self.refused.extend(refused);
        } else {
            self.one_by_one(refused).await;
        }
        if none_before {
            self.pause = FIRST_PAUSE;
            self.pause();
        }
    }

    /// Tries the finishes again that are due.
    pub(super) async fn try_again(&mut self) {
        if self.locked.again().is_some_and(|again| again <= Instant::now()) {
            self.try_locked().await;
        }
        if !self.refused.is_empty() && self.again <= Instant::now() {
            self.try_refused().await;
        }
        self.release_unwanted().await;
    }

    /// No more finishes will come. Tries the refused ones once more, and the locked ones until their locks are
    /// released.
    pub(super) async fn finish_up(&mut self) {
        self.try_refused().await;
        self.release_unwanted().await;
        while let Some(again) = self.locked.again() {
            tokio::time::sleep_until(again.into()).await;
            self.try_locked().await;
            self.release_unwanted().await;
        }
    }

    async fn try_locked(&mut self) {
        let reports = self.locked.reports();
        match self.finish(&reports).await {
            Ok(still_locked) => self.locked.tried(&still_locked),
            Err(_) => {
                self.locked.tried(&[]);
                self.set_aside(reports).await;
            }
        }
    }

    async fn try_refused(&mut self) {
        let (refused, accepted) = (std::mem::take(&mut self.refused), self.accepted);
        self.refused_in_a_row = 0;
        self.one_by_one(refused.into_iter()).await;
        if self.accepted > accepted {
            self.pause = FIRST_PAUSE;
        }
        self.pause();
    }

    fn pause(&mut self) {
        self.again = Instant::now() + self.pause.mul_f64(rand::random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Writes finishes one by one. Sets aside those that are refused or not tried.
    async fn one_by_one(&mut self, mut reports: impl Iterator<Item = Refused>) {
        while self.refused_in_a_row < IN_A_ROW
            && let Some(mut one) = reports.next()
        {
            let problem = match self.finish(std::slice::from_ref(&one.report)).await {
                Ok(locked) => {
                    locked.into_iter().for_each(|report| self.locked.add(report, one.since));
                    continue;
                }
                Err(problem) => problem,
            };
            if self.accepted > one.accepted_before {
                (one.times_alone, one.accepted_before) = (one.times_alone + 1, self.accepted);
            }
            let leases = if one.times_alone < TIMES_ALONE { LEASES_IF_ALL_REFUSED } else { LEASES_IF_ALONE };
            // The builder sets no upper limit for a lease, so the product could overflow.
            let limit = self.shared.settings.lease.saturating_mul(leases);
            if one.since.elapsed() < limit || !self.discard(&one.report, &problem).await {
                self.refused.push_back(one);
            }
        }
        let untried = VecDeque::from_iter(reports);
        if !untried.is_empty() {
            self.again = self.again.min(Instant::now() + FIRST_PAUSE);
        }
        let refused = std::mem::replace(&mut self.refused, untried);
        self.refused.extend(refused);
    }

    /// Writes these finishes as soon as the database is reachable. Meanwhile the heartbeat keeps the leases. If the
    /// heartbeat fails, the leases are lost and the finishes change nothing. Returns the finishes whose rows another
    /// session has locked. An error means that the database has refused the batch.
    async fn finish(&mut self, reports: &[Report]) -> StorageResult<Vec<Report>> {
        let finish = |report: &Report| Finish::new(report.ctx.claimed(), report.transition.clone());
        let batch: Vec<Finish> = reports.iter().map(finish).collect();
        let mut pause = FIRST_PAUSE;
        let finished = loop {
            let asked = Instant::now();
            match self.shared.finish_and_claim(&batch).await {
                Ok((finished, unwanted, claimed)) => {
                    self.unwanted.extend(unwanted);
                    self.claimed = (claimed > 0).then(|| (claimed, asked.elapsed()));
                    break finished;
                }
                Err(problem) => {
                    self.warning.report(&problem);
                    if !problem.is_transient() {
                        self.refused_in_a_row += 1;
                        return Err(problem);
                    }
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        };
        (self.refused_in_a_row, self.accepted) = (0, self.accepted + 1);
        // A finish may have been written although the reply was lost. Its repetition finds nothing, and that counts as
        // settled, too.
        let repeated = pause > FIRST_PAUSE;
        let valid = self.still_valid(&batch, &finished.moved).await;
        if !repeated && finished.moved.len() < reports.len() {
            let lost = |report: &&Report| !report.may_be_settled && !valid.contains(&report.ctx.lease());
            let gone = |report: &&Report| !finished.moved.contains(&report.ctx.id());
            let lost: Vec<&JobContext> = reports.iter().filter(lost).filter(gone).map(|report| &report.ctx).collect();
            self.shared.find_cancelled(&lost).await;
        }
        self.shared.written(reports, finished, &valid, repeated);
        let locked = reports.iter().filter(|report| valid.contains(&report.ctx.lease())).cloned();
        Ok(locked.map(|report| Report { may_be_settled: report.may_be_settled || repeated, ..report }).collect())
    }

    /// The leases that are still valid although their jobs were not moved: another session has locked their rows. If
    /// the database does not answer, returns the leases of all jobs that were not moved. The next try finds out.
    async fn still_valid(&self, batch: &[Finish], moved: &[JobId]) -> HashSet<Lease> {
        if moved.len() == batch.len() {
            return HashSet::new();
        }
        let moved: HashSet<&JobId> = moved.iter().collect();
        let mut missing: HashMap<WorkerId, HashSet<Lease>> = HashMap::new();
        for Finish { lease, .. } in batch.iter().filter(|finish| !moved.contains(&finish.lease.job)) {
            missing.entry(lease.worker).or_default().insert(*lease);
        }
        let mut valid = HashSet::new();
        for (worker, mut leases) in missing {
            let jobs: Vec<JobId> = leases.iter().map(|lease| lease.job).collect();
            match self.shared.storage.leases(worker, Some(&jobs)).await {
                Ok(found) => leases.retain(|lease| found.valid.contains(&(lease.job, lease.number))),
                Err(problem) => self.warning.report(&problem),
            }
            valid.extend(leases);
        }
        valid
    }
}
