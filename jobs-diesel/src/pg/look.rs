//! `claim`, `next_due` and `rescan` of PostgreSQL. Each makes a plan from [`Levels`], reads where the plan says, and
//! records in `Levels` what it found.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use diesel_async::RunQueryDsl;
use diesel_jobs_core::ClaimedJob;
use diesel_jobs_core::storage::{Claim, RescanReason, Rescanned, StorageResult};

#[cfg(doc)]
use super::levels::Levels;
use super::levels::Plan;
use super::many_queues::{AT_ONCE, NEXT_QUEUES, all_of};
use super::queries::claim::{self, ClaimQuery, ClaimedRow};
use super::queries::claim_few::ClaimFewQuery;
use super::queries::claim_quarantined::ClaimQuarantinedQuery;
use super::queries::discover::{DiscoverQuery, DiscoverRow};
use super::queries::live_queues::LiveQueuesQuery;
use super::queries::next_due::{NextDueQuery, NextDueRow};
use super::queries::rescan::{RescanQuery, RescanRow};
use super::refused::may_be_caused_by_a_row;
use super::{PgStorage, run};

/// How long the first claim of a worker waits for its first rescan. With millions of dead entries the rescan takes
/// seconds, and new jobs should be claimed meanwhile.
const FIRST_RESCAN: Duration = Duration::from_millis(500);

impl PgStorage {
    pub(super) async fn look_and_claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        self.begin(claim).await;
        if claim.wanted.len() <= AT_ONCE {
            return self.claim_from(claim).await;
        }
        let live = self.live(claim).await?;
        let some = self.levels(claim.worker, |levels| levels.many.some_of(claim, live.as_ref()));
        if some.wanted.is_empty() { Ok(Vec::new()) } else { self.claim_from(&some).await }
    }

    pub(super) async fn claim_quarantined(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let mut rows: StorageResult<Vec<ClaimedRow>> =
            run!(self, "claim_quarantined", conn => ClaimQuarantinedQuery::new(claim).load(conn));
        if rows.as_ref().is_err_and(may_be_caused_by_a_row) && self.set_quarantined_apart(claim).await? {
            rows = run!(self, "claim_quarantined", conn => ClaimQuarantinedQuery::new(claim).load(conn));
        }
        Ok(rows?.into_iter().map(|row| row.into_job(claim.worker)).collect())
    }

    async fn claim_from(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let (plan, few) = self.levels(claim.worker, |levels| {
            (levels.plan(claim, Instant::now()), std::mem::take(&mut levels.expects_few))
        });
        if few {
            let jobs = self.claim_few(&plan, claim).await?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        let jobs = self.claim_by(&plan, claim).await?;
        if !jobs.is_empty() || !plan.goes_on() {
            return Ok(jobs);
        }
        // A job may have come back between the floor and the place where the claim began.
        let plan = self.levels(claim.worker, |levels| levels.plan_from_floors(claim));
        self.claim_by(&plan, claim).await
    }

    /// Claims with the shorter statement. Returns no jobs if that statement does not apply here, or if it found none.
    /// Other jobs may be due in both cases, so the ordinary claim must follow.
    async fn claim_few(&self, plan: &Plan, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let Some(query) = ClaimFewQuery::new(claim, plan) else { return Ok(Vec::new()) };
        let (asked, durable) = (Instant::now(), self.outage.is_recent());
        let rows: StorageResult<Vec<ClaimedRow>> = run!(self, "claim", conn => query.durable(durable).load(conn));
        match rows {
            Ok(rows) => Ok(self.take(rows, &plan.levels(), claim, asked)),
            // The claim that follows sets the row apart.
            Err(problem) if may_be_caused_by_a_row(&problem) => Ok(Vec::new()),
            Err(problem) => Err(problem),
        }
    }

    async fn claim_by(&self, plan: &Plan, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let asked = Instant::now();
        let durable = self.outage.is_recent();
        let mut rows: StorageResult<Vec<ClaimedRow>> =
            run!(self, "claim", conn => ClaimQuery::new(claim, plan).durable(durable).load(conn));
        if rows.as_ref().is_err_and(may_be_caused_by_a_row) && self.set_waiting_apart(claim, plan).await? {
            rows = run!(self, "claim", conn => ClaimQuery::new(claim, plan).durable(durable).load(conn));
        }
        let rows = rows?;
        self.levels(claim.worker, |levels| levels.expects_few = rows.is_empty());
        Ok(self.take(rows, plan, claim, asked))
    }

    fn take(&self, rows: Vec<ClaimedRow>, plan: &Plan, claim: &Claim, asked: Instant) -> Vec<ClaimedJob> {
        let now = Instant::now();
        self.levels(claim.worker, |levels| {
            levels.lag.claimed(now - asked, rows.len(), now);
            if let Some(first) = rows.as_slice().first() {
                let seen: Vec<_> = rows.iter().map(ClaimedRow::seen).collect();
                levels.claimed(claim, plan, &seen, first.clock(), now);
            }
        });
        let mut jobs: Vec<ClaimedJob> = rows.into_iter().map(|row| row.into_job(claim.worker)).collect();
        claim::sort(&mut jobs);
        jobs
    }

    pub(super) async fn look_ahead(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        self.begin(claim).await;
        let live = if claim.wanted.len() <= AT_ONCE { None } else { Some(self.live(claim).await?) };
        let (claim, blind) = match live {
            None => (claim.clone(), false),
            Some(Some(live)) => {
                let wanted = all_of(claim, Some(&live)).cloned().collect();
                (Claim { wanted, ..claim.clone_without_wanted() }, false)
            }
            Some(None) => (self.levels(claim.worker, |levels| levels.many.some_of(claim, None)), true),
        };
        let plan = self.levels(claim.worker, |levels| levels.plan_from_floors(&claim));
        let asked = Instant::now();
        let answer: NextDueRow =
            run!(self, "next_due", conn => NextDueQuery::new(&claim, &plan, within).get_result(conn))?;
        let due = answer.seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.levels(claim.worker, |levels| {
            let now = Instant::now();
            levels.lag.claimed(now - asked, 0, now);
            if due.is_none_or(|due| !due.is_zero()) {
                levels.nothing_due(&claim, &plan, answer.clock, answer.paused);
            }
        });
        Ok(if blind { Some(due.map_or(NEXT_QUEUES, |due| due.min(NEXT_QUEUES))) } else { due })
    }

    /// Returns the queues that have jobs. After three slow answers in a row it does not ask for a while, and returns
    /// `None`.
    async fn live(&self, claim: &Claim) -> StorageResult<Option<HashSet<String>>> {
        let asked = Instant::now();
        if !self.levels(claim.worker, |levels| levels.many.asks(asked)) {
            return Ok(None);
        }
        let live: Vec<String> = run!(self, "live_queues", conn => LiveQueuesQuery.load(conn))?;
        let now = Instant::now();
        self.levels(claim.worker, |levels| levels.many.asked(now - asked, now));
        Ok(Some(live.into_iter().collect()))
    }

    /// The first rescan of a worker finds where jobs wait. If it takes long, it goes on in parallel with the first
    /// claims.
    async fn begin(&self, claim: &Claim) {
        if self.levels(claim.worker, super::levels::Levels::begin) {
            let (storage, claim) = (self.clone(), Claim { bypass_limit: true, ..claim.clone() });
            let first = tokio::spawn(async move { storage.rescan_below(&claim, RescanReason::CameBack).await });
            match tokio::time::timeout(FIRST_RESCAN, first).await {
                Ok(Ok(Ok(_))) => {}
                // Later rescans find what this one has not found.
                Ok(Ok(Err(problem))) => tracing::debug!(target: "diesel_jobs", { %problem }, "the first rescan failed"),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    pub(super) async fn rescan_below(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        let live = if claim.wanted.len() <= AT_ONCE { None } else { self.live(claim).await? };
        let wanted = all_of(claim, live.as_ref()).cloned().collect();
        let claim = &Claim { wanted, ..claim.clone_without_wanted() };
        let gaps = self.levels(claim.worker, |levels| levels.plan_of_all(claim, Instant::now())).gaps();
        let asked = Instant::now();
        let mut rows: Vec<DiscoverRow> = run!(self, "discover", conn => DiscoverQuery::new(claim, &gaps).load(conn))?;
        let now = Instant::now();
        let found: Vec<_> = rows.iter_mut().filter_map(DiscoverRow::level).collect();
        let Some(any) = rows.pop() else { return Ok(Rescanned::Refused) };
        let levels = self.levels(claim.worker, |levels| {
            levels.discovered(&found, any.paused, any.clock, now - asked, now);
            let plan = levels.plan_of_all(claim, now).levels();
            (reason == RescanReason::CameBack || !levels.are_unchanged(any.changes, now)).then_some(plan)
        });
        let Some(levels) = levels.filter(|plan| !plan.scans.is_empty()) else { return Ok(Rescanned::Nothing) };
        let began = Instant::now();
        let rows: Vec<RescanRow> = run!(self, "rescan", conn => RescanQuery::new(claim, &levels).load(conn))?;
        if rows.is_empty() {
            return Ok(Rescanned::Refused);
        }
        let found: Vec<_> = rows.into_iter().filter_map(RescanRow::straggler).collect();
        self.levels(claim.worker, |known| {
            let now = Instant::now();
            known.rescanned(claim, &levels, &found, now);
            known.note_unchanged(found.is_empty(), any.changes, began, now - began);
        });
        Ok(if found.is_empty() { Rescanned::Nothing } else { Rescanned::Found })
    }
}
