//! The end of a run that ends by itself: what such a worker waits for, and when nothing is left.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Fetcher;
use crate::maintenance::discoverer;
use crate::storage::{Claim, Operator, RescanReason, Rescanned, StorageResult, Waiting};
use crate::telemetry;
use crate::worker::bounds::{Bounds, Later};

/// How long a run that ends by itself waits until all due ticks of schedules are enqueued.
const SCHEDULES_CHECKED_WITHIN: Duration = Duration::from_secs(30);

/// Since when a run that would end waits for what others must do first.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// That all due ticks of schedules are enqueued.
    schedules: Option<Instant>,
    /// That the jobs of a dead worker are rescued.
    rescue: Option<Instant>,
}

impl Fetcher {
    /// The time until the first job is due that a worker waits for before it ends.
    pub(super) async fn next_of_run(&mut self, wanted: &Claim) -> StorageResult<Option<Duration>> {
        if self.leaves_later_jobs() { self.next_without_later(wanted).await } else { self.next_of_all(wanted).await }
    }

    /// Zero if a job is due, else the time until a token comes for which a due job waits, or a poll if the jobs of a
    /// dead worker will be rescued. What rules hold and a whole pass of admission does not admit waits for a job of
    /// another worker, or for one that is left itself.
    async fn next_without_later(&mut self, wanted: &Claim) -> StorageResult<Option<Duration>> {
        let storage = self.shared.storage.clone();
        let held = storage.next_due(wanted, Waiting::Held).await?;
        if held.is_some_and(|held| held.is_zero()) {
            let pass = storage.admit(true).await?;
            if pass.is_busy || pass.more || pass.sweep_again {
                return Ok(Some(Duration::ZERO));
            }
        }
        let token = match held {
            Some(_) => storage.next_due(wanted, Waiting::Token).await?,
            None => None,
        };
        let due = storage.next_due(wanted, Waiting::Available { within: Duration::ZERO }).await?;
        let next = due.filter(Duration::is_zero).into_iter().chain(token).min();
        // While this worker runs jobs, it does not end anyway.
        if next.is_some() || self.shared.leases.count() > 0 || !storage.rescue_is_due().await? {
            self.awaited.rescue = None;
            return Ok(next);
        }
        // The rescuer can act after its second heartbeat, and wakes the fetcher. After an outage it waits for a lease.
        let settings = &self.shared.settings;
        let since = *self.awaited.rescue.get_or_insert_with(|| {
            telemetry::rescue_awaited();
            Instant::now()
        });
        let goes_on = since.elapsed() < settings.lease + settings.no_rescue_after_outage();
        Ok(goes_on.then_some(settings.poll))
    }

    /// The time until the first job is due, held jobs included. If a held job is due, it is admitted now, or its limit
    /// waits for another job. The held jobs are asked for first: one that is admitted meanwhile is in the second
    /// answer.
    async fn next_of_all(&self, wanted: &Claim) -> StorageResult<Option<Duration>> {
        let held = self.shared.storage.next_due(wanted, Waiting::Held).await?;
        if held.is_some_and(|held| held.is_zero()) {
            self.shared.storage.admit(true).await?;
        }
        let due = self.shared.storage.next_due(wanted, Waiting::Available { within: Duration::MAX }).await?;
        Ok(due.into_iter().chain(held).min())
    }

    /// Makes the first of the jobs due that are scheduled for later.
    pub(super) async fn skip_time(&mut self, operator: &dyn Operator) {
        let worker = *self.shared.id.borrow();
        let queues = self.shared.queues.names();
        match operator.skip_time(worker, &queues, &self.shared.live.kinds()).await {
            Ok(span) => {
                let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
                self.shared.skipped.fetch_add(span, Ordering::Relaxed);
            }
            Err(problem) => self.shared.end_with(problem.into()),
        }
    }

    /// Claims and polls found no job, but they do not find stragglers. So a rescan must confirm that no job is left.
    /// Another rescan of this worker may have found a straggler since the poll, and then this rescan does not find it.
    /// So another poll must confirm it.
    pub(super) async fn end_if_nothing_is_left(&mut self, wanted: &Claim) {
        if !self.are_schedules_checked().await {
            return;
        }
        // The reply to a claim may have been lost. Then the reconciler releases its jobs, under this lock.
        let needs_reconcile = {
            let _claiming = self.shared.claiming.read().await;
            self.shared.needs_reconcile.load(Ordering::Acquire)
        };
        if needs_reconcile {
            return self.back_off().await;
        }
        let left = match self.shared.storage.rescan(wanted, RescanReason::Requested).await {
            Ok(Rescanned::Nothing) => self.is_left(wanted).await,
            Ok(Rescanned::Found) => Ok(true),
            Ok(Rescanned::Refused) => return self.back_off().await,
            Err(problem) => Err(problem),
        };
        match left {
            // Without a queue, no claim or poll waits for the next reason.
            Ok(true) if self.shared.queues.len() == 0 => self.back_off().await,
            Ok(true) => {}
            Ok(false) => {
                self.say_what_may_be_left(wanted);
                self.shared.phases.draining().cancel();
            }
            Err(problem) => {
                self.warning.report(&problem);
                self.back_off().await;
            }
        }
    }

    /// A job of a tick that was due at the start is not left to the next run. Returns `false` if there may be jobs
    /// meanwhile, or the worker stops.
    async fn are_schedules_checked(&mut self) -> bool {
        let until = *self.awaited.schedules.get_or_insert_with(Instant::now) + SCHEDULES_CHECKED_WITHIN;
        let checked = async {
            tokio::select! {
                biased;
                () = self.shared.phases.quiet().cancelled() => false,
                () = self.shared.schedules_checked.cancelled() => true,
                () = self.shared.wake.notified() => false,
                () = self.shared.hint.notified() => {
                    self.hinted = true;
                    false
                }
                () = tokio::time::sleep_until(until.into()) => true,
            }
        };
        self.shared.health.ticking(checked).await
    }

    fn say_what_may_be_left(&self, wanted: &Claim) {
        if !self.shared.schedules_checked.is_cancelled() {
            telemetry::ticks_unknown(SCHEDULES_CHECKED_WITHIN);
        }
        if self.awaited.rescue.is_some() {
            telemetry::rescue_not_awaited();
        }
        match self.shared.queues.are_all_in(wanted) {
            true => telemetry::nothing_left(self.leaves_later_jobs()),
            false => telemetry::no_slot_left(),
        }
    }

    /// Whether a job waits, also in a queue that has just been found.
    async fn is_left(&mut self, wanted: &Claim) -> StorageResult<bool> {
        for waiting in [Waiting::Held, Waiting::Available { within: Duration::MAX }] {
            if discoverer::find(&self.shared, waiting).await? {
                return Ok(true);
            }
        }
        // The discoverer may have found a queue after the claim.
        if self.shared.queues.wants_others_than(&wanted.wanted) {
            return Ok(true);
        }
        self.next_of_run(wanted).await.map(|due| due.is_some())
    }

    /// Whether this worker ends although jobs are scheduled for later.
    fn leaves_later_jobs(&self) -> bool {
        matches!(self.bounds, Some(Bounds { later: Later::Leave, .. }))
    }
}
