//! What the completer does with a batch: it is written, however long the database is away. What the database refuses although
//! it is there is set aside and tried again beside others: mostly all is refused for a while (a standby that is read-only, a
//! right that is missing, a quota), and what handlers have done must not be undone for that. What waits for a lock on its row
//! is set aside, too ([`locked`](super::locked)).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::locked::Locked;
use super::report::{BATCH, Report};
use super::shared::Shared;
use crate::crash_point::crash_point;
use crate::error::{Failure, FailureKind};
use crate::job::JobId;
use crate::lease::{Lease, WorkerId};
use crate::outcome::{Finish, Keep, Transition};
use crate::storage::StorageResult;
use crate::storage_error::StorageError;
use crate::telemetry::{self, RateLimitedWarning};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// After so many refusals with nothing accepted between them, the others are not tried one by one until a pause is over.
const IN_A_ROW: u32 = 3;
/// With so many set aside, no more are taken in.
const ASIDE: usize = 2 * BATCH;
/// A finish that was refused so often, each time after others had been accepted, is at fault itself,
const ALONE: u32 = 5;
/// if that took so many leases at least,
const LEASES: u32 = 4;
/// or if it took so many, and nobody else had anything to write.
const MANY_LEASES: u32 = 40;

/// A finish that was refused.
struct Refused {
    report: Report,
    since: Instant,
    /// How often since others had been accepted, as far as this one has seen.
    alone: u32,
    others: u64,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    warning: RateLimitedWarning,
    /// Those that were not tried alone yet come first: they may be as good as any.
    aside: VecDeque<Refused>,
    locked: Locked,
    /// Statements that were accepted.
    accepted: u64,
    pause: Duration,
    /// When they are tried again.
    again: Instant,
    refused_in_a_row: u32,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (warning, aside, again) = (RateLimitedWarning::new("finish"), VecDeque::new(), Instant::now());
        let locked = Locked::new();
        Self { shared, warning, aside, locked, accepted: 0, pause: FIRST_PAUSE, again, refused_in_a_row: 0 }
    }

    /// Whether to take in more.
    pub(super) fn has_room(&self) -> bool {
        self.aside.len() < ASIDE
    }

    /// Waits until what is set aside should be tried again; for ever, if there is nothing.
    pub(super) async fn until_again(&self) {
        let refused = (!self.aside.is_empty()).then_some(self.again);
        match refused.into_iter().chain(self.locked.again()).min() {
            Some(again) => tokio::time::sleep_until(again.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Writes a batch. If it is refused, the others may be written without the one that cannot be.
    pub(super) async fn write(&mut self, reports: Vec<Report>) {
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
        let (one, none_before) = (reports.len() == 1, self.aside.is_empty());
        let (since, others) = (Instant::now(), self.accepted);
        let refused = reports.into_iter().map(|report| Refused { report, since, alone: 0, others });
        if one {
            self.aside.extend(refused);
        } else {
            self.one_by_one(refused).await;
        }
        if none_before {
            self.pause = FIRST_PAUSE;
            self.pause();
        }
    }

    /// Tries again what is due.
    pub(super) async fn try_again(&mut self) {
        if self.locked.again().is_some_and(|again| again <= Instant::now()) {
            self.try_locked().await;
        }
        if !self.aside.is_empty() && self.again <= Instant::now() {
            self.try_refused().await;
        }
    }

    /// Nothing more will come: tries the refused once more, and the locked until their locks are gone.
    pub(super) async fn finish_up(&mut self) {
        self.try_refused().await;
        while let Some(again) = self.locked.again() {
            tokio::time::sleep_until(again.into()).await;
            self.try_locked().await;
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
        let (aside, accepted) = (std::mem::take(&mut self.aside), self.accepted);
        self.refused_in_a_row = 0;
        self.one_by_one(aside.into_iter()).await;
        if self.accepted > accepted {
            self.pause = FIRST_PAUSE;
        }
        self.pause();
    }

    fn pause(&mut self) {
        self.again = Instant::now() + self.pause.mul_f64(rand::random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Sets aside what is refused or not tried.
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
            if self.accepted > one.others {
                (one.alone, one.others) = (one.alone + 1, self.accepted);
            }
            let leases = if one.alone < ALONE { MANY_LEASES } else { LEASES };
            // A lease may be as long as a builder says.
            let patience = self.shared.settings.lease.saturating_mul(leases);
            if one.since.elapsed() < patience || !self.discard(&one.report, &problem).await {
                self.aside.push_back(one);
            }
        }
        let untried = VecDeque::from_iter(reports);
        if !untried.is_empty() {
            self.again = self.again.min(Instant::now() + FIRST_PAUSE);
        }
        let refused = std::mem::replace(&mut self.aside, untried);
        self.aside.extend(refused);
    }

    /// Writes these finishes as soon as the database is there: the heartbeat keeps the leases, and if it cannot, they are lost
    /// and the finishes find nothing. Answers those whose rows somebody has locked. An error is a refusal.
    async fn finish(&mut self, reports: &[Report]) -> StorageResult<Vec<Report>> {
        let finish = |report: &Report| Finish { lease: report.ctx.lease(), transition: report.transition.clone() };
        let batch: Vec<Finish> = reports.iter().map(finish).collect();
        let mut pause = FIRST_PAUSE;
        let moved = loop {
            match self.shared.storage.finish(&batch).await {
                Ok(moved) => break moved,
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
        // A finish whose reply was lost was written, and its repetition finds nothing: that is settled too.
        let repeated = pause > FIRST_PAUSE;
        let standing = self.standing(&batch, &moved).await;
        self.shared.written(reports, moved, &standing, repeated);
        let locked = reports.iter().filter(|report| standing.contains(&report.ctx.lease())).cloned();
        Ok(locked.map(|report| Report { may_be_settled: report.may_be_settled || repeated, ..report }).collect())
    }

    /// The leases that stand of those under which nothing was moved: somebody has locked their rows. Where the database does
    /// not answer they may all stand; the next try tells.
    async fn standing(&self, batch: &[Finish], moved: &[JobId]) -> HashSet<Lease> {
        if moved.len() == batch.len() {
            return HashSet::new();
        }
        let moved: HashSet<&JobId> = moved.iter().collect();
        let mut missing: HashMap<WorkerId, HashSet<Lease>> = HashMap::new();
        for Finish { lease, .. } in batch.iter().filter(|finish| !moved.contains(&finish.lease.job)) {
            missing.entry(lease.worker).or_default().insert(*lease);
        }
        let mut standing = HashSet::new();
        for (worker, mut leases) in missing {
            let jobs: Vec<JobId> = leases.iter().map(|lease| lease.job).collect();
            match self.shared.storage.leases(worker, Some(&jobs)).await {
                Ok(stand) => leases.retain(|lease| stand.contains(&(lease.job, lease.number))),
                Err(problem) => self.warning.report(&problem),
            }
            standing.extend(leases);
        }
        standing
    }

    /// The database will not have this outcome. Running the job again and again would be worse than an end that people
    /// see. Answers whether that was accepted.
    async fn discard(&mut self, Report { ctx, ran, .. }: &Report, problem: &StorageError) -> bool {
        let failure = Failure::new(FailureKind::Error, &format!("its outcome could not be stored: {problem}"));
        let keep = Keep::For(self.shared.settings.retention.failed);
        let lease = ctx.lease();
        let finish = [Finish { lease, transition: Transition::Discard { failure, keep } }];
        let Ok(moved) = self.shared.storage.finish(&finish).await else { return false };
        if !self.standing(&finish, &moved).await.is_empty() {
            return false;
        }
        telemetry::refused("finish", problem);
        self.refused_in_a_row = 0;
        if moved.is_empty() {
            self.shared.lost(ctx, "discard");
        } else {
            self.shared.done(ctx, &finish[0].transition, *ran);
            self.shared.leases.end([&lease]);
        }
        true
    }
}
