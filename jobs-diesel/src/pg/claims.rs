//! `claim`, `next_due`, `poll` and `rescan` of PostgreSQL. Each makes a plan from [`Levels`], reads where the plan
//! says, and records in `Levels` what it found.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use diesel_async::RunQueryDsl;
use diesel_jobs_core::ClaimedJob;
use diesel_jobs_core::storage::{Claim, Polled, RescanReason, Rescanned, StorageResult};

#[cfg(doc)]
use super::levels::Levels;
use super::levels::Plan;
use super::many_queues::{AT_ONCE, NEXT_QUEUES, all_of};
use super::queries::claim::{self, ClaimInTurnsQuery, ClaimQuery, ClaimedRow};
use super::queries::claim_few::ClaimFewQuery;
use super::queries::claim_quarantined::ClaimQuarantinedQuery;
use super::queries::discover::{DiscoverQuery, DiscoverRow};
use super::queries::next_due::{NextDueQuery, NextDueRow};
use super::queries::poll::{PollQuery, PollRow};
use super::queries::rescan::{RescanQuery, RescanRow};
use super::queries::waiting_queues::WaitingQueuesQuery;
use super::refused::run_apart;
use super::{PgStorage, run};
use crate::meaning::row;

/// How long the first claim of a worker waits for its first rescan. With millions of dead entries the rescan takes
/// seconds, and new jobs should be claimed meanwhile.
const FIRST_RESCAN: Duration = Duration::from_millis(500);

impl PgStorage {
    /// Claims jobs that are not quarantined. If the worker serves many queues, claims from some of those that have
    /// jobs.
    pub(super) async fn claim_unquarantined(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        self.rescan_at_start(claim).await;
        if claim.wanted.len() <= AT_ONCE {
            return self.claim_from(claim).await;
        }
        let live = self.live_queues(claim).await?;
        let some = self.levels(claim.worker, |levels| levels.many.some_of(claim, live.as_ref()));
        if some.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let jobs = self.claim_from(&some).await?;
        if !jobs.is_empty() {
            self.levels(claim.worker, |levels| levels.many.got_jobs(claim));
        }
        Ok(jobs)
    }

    pub(super) async fn claim_quarantined(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let rows: Vec<ClaimedRow> = run_apart!(self, "claim_quarantined", self.set_quarantined_apart(claim), conn => {
            ClaimQuarantinedQuery::new(claim).load(conn)
        })?;
        Ok(rows.into_iter().map(|row| row.into_job(claim.worker)).collect())
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
        let jobs = self.claim_with(&plan, claim).await?;
        if !jobs.is_empty() || !plan.resumes() {
            return Ok(jobs);
        }
        // A rescued or released job may be between the floor and the place where this claim began.
        let plan = self.levels(claim.worker, |levels| levels.plan_from_floors(claim));
        self.claim_with(&plan, claim).await
    }

    /// Claims with the shorter statement. Returns no jobs if that statement does not apply here, or if it found none.
    /// Other jobs may be due in both cases, so the ordinary claim must follow.
    async fn claim_few(&self, plan: &Plan, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let Some(query) = ClaimFewQuery::new(claim, plan) else { return Ok(Vec::new()) };
        let (asked, durable) = (Instant::now(), self.outage.is_recent());
        let rows: StorageResult<Vec<ClaimedRow>> = run!(self, "claim", conn => query.durable(durable).load(conn));
        match rows {
            Ok(rows) => Ok(self.record_claimed(rows, &plan.levels(), claim, asked)),
            // The claim that follows sets the row apart.
            Err(problem) if row::may_be_the_cause(&problem) => Ok(Vec::new()),
            Err(problem) => Err(problem),
        }
    }

    async fn claim_with(&self, plan: &Plan, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let asked = Instant::now();
        let durable = self.outage.is_recent();
        let rows: Vec<ClaimedRow> = run_apart!(self, "claim", self.set_waiting_apart(claim, plan), conn => {
            match ClaimInTurnsQuery::new(claim, plan) {
                None => ClaimQuery::new(claim, plan).durable(durable).load(conn),
                Some(in_turns) => in_turns.durable(durable).load(conn),
            }
        })?;
        self.levels(claim.worker, |levels| levels.expects_few = rows.is_empty());
        Ok(self.record_claimed(rows, plan, claim, asked))
    }

    /// Records the claimed jobs in the levels, and returns them in the order in which they should run.
    fn record_claimed(&self, rows: Vec<ClaimedRow>, plan: &Plan, claim: &Claim, asked: Instant) -> Vec<ClaimedJob> {
        let now = Instant::now();
        self.levels(claim.worker, |levels| {
            levels.lag.claimed(self.stopwatch().since(asked), rows.len(), now);
            if let Some(first) = rows.as_slice().first() {
                let positions: Vec<_> = rows.iter().map(ClaimedRow::position).collect();
                levels.claimed(claim, plan, &positions, first.clock(), now);
            }
        });
        let mut jobs: Vec<ClaimedJob> = rows.into_iter().map(|row| row.into_job(claim.worker)).collect();
        claim::sort(&mut jobs);
        jobs
    }

    /// Returns the time until the next job is due, and raises the scan floors if none is due now.
    pub(super) async fn find_next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        let ask = async |claim: &Claim, plan: &Plan| {
            let row: NextDueRow =
                run!(self, "next_due", conn => NextDueQuery::new(claim, plan, within).get_result(conn))?;
            Ok((row, ()))
        };
        self.next_due_by(claim, within, ask).await.map(|(due, ())| due)
    }

    /// The same. Also returns what else there is to do.
    pub(super) async fn find_next_due_and_upkeep(&self, claim: &Claim, within: Duration) -> StorageResult<Polled> {
        let asked = Instant::now();
        let looks = self.levels(claim.worker, |levels| levels.looks_for_overdue(asked));
        let ask = async |claim: &Claim, plan: &Plan| {
            let query = PollQuery::new(claim, plan, within).looking_for_overdue(looks);
            let is_meant = self.connector.expects_primary();
            let row = run!(self, "poll", conn => async {
                query.get_result::<PollRow>(conn).await?.of_primary(is_meant)
            })?;
            Ok(row.parts())
        };
        let answer = self.next_due_by(claim, within, ask).await;
        if looks {
            let took = answer.is_ok().then(|| self.stopwatch().since(asked));
            self.levels(claim.worker, |levels| levels.has_looked_for_overdue(took, Instant::now()));
        }
        let (due, upkeep) = answer?;
        Ok(Polled { due, upkeep: Some(upkeep), is_notified: self.listeners.are_all_listening() })
    }

    async fn next_due_by<T>(
        &self,
        claim: &Claim,
        within: Duration,
        ask: impl AsyncFnOnce(&Claim, &Plan) -> StorageResult<(NextDueRow, T)>,
    ) -> StorageResult<(Option<Duration>, T)> {
        self.rescan_at_start(claim).await;
        let live = if claim.wanted.len() <= AT_ONCE { None } else { Some(self.live_queues(claim).await?) };
        let (claim, only_some_queues) = match live {
            None => (claim.clone(), false),
            Some(Some(live)) => {
                let wanted = all_of(claim, Some(&live)).cloned().collect();
                (Claim { wanted, ..claim.clone_without_wanted() }, false)
            }
            // Whether a job is due must not depend on the turns of the queues.
            Some(None) if within.is_zero() => (claim.clone(), false),
            Some(None) => (self.levels(claim.worker, |levels| levels.many.some_of(claim, None)), true),
        };
        let plan = self.levels(claim.worker, |levels| levels.plan_from_floors(&claim));
        let asked = Instant::now();
        let (answer, upkeep) = ask(&claim, &plan).await?;
        let due = answer.seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.levels(claim.worker, |levels| {
            let now = Instant::now();
            levels.lag.claimed(self.stopwatch().since(asked), 0, now);
            if due.is_none_or(|due| !due.is_zero()) {
                levels.nothing_due(&claim, &plan, answer.clock, answer.paused);
            }
        });
        let due = if only_some_queues { Some(due.map_or(NEXT_QUEUES, |due| due.min(NEXT_QUEUES))) } else { due };
        Ok((due, upkeep))
    }

    /// Returns the queues that have jobs. After three slow queries in a row, it makes no query for a while and returns
    /// `None`.
    async fn live_queues(&self, claim: &Claim) -> StorageResult<Option<HashSet<String>>> {
        let asked = Instant::now();
        if !self.levels(claim.worker, |levels| levels.many.queries.may_query(asked)) {
            return Ok(None);
        }
        let live: Vec<String> = run!(self, "waiting_queues", conn => WaitingQueuesQuery.load(conn))?;
        let now = Instant::now();
        self.levels(claim.worker, |levels| levels.many.queries.note(self.stopwatch().since(asked), now));
        Ok(Some(live.into_iter().collect()))
    }

    /// Makes the first rescan of a worker, which finds the levels that have jobs. If it takes long, it continues in
    /// parallel with the first claims.
    async fn rescan_at_start(&self, claim: &Claim) {
        if self.levels(claim.worker, |levels| levels.begin(&claim.kinds)) {
            let (storage, claim) = (self.clone(), Claim { bypass_limit: true, ..claim.clone() });
            let first = tokio::spawn(async move { storage.find_stragglers(&claim, RescanReason::Requested).await });
            match tokio::time::timeout(self.stopwatch().limit(FIRST_RESCAN), first).await {
                Ok(Ok(Ok(_))) => {}
                // Later rescans find what this one has not found.
                Ok(Ok(Err(problem))) => tracing::debug!(target: "diesel_jobs", { %problem }, "the first rescan failed"),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Runs the discovery and the rescan, and lowers the scan floors to the stragglers.
    pub(super) async fn find_stragglers(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        let live = if claim.wanted.len() <= AT_ONCE { None } else { self.live_queues(claim).await? };
        let wanted = all_of(claim, live.as_ref()).cloned().collect();
        let claim = &Claim { wanted, ..claim.clone_without_wanted() };
        let gaps = self.levels(claim.worker, |levels| levels.plan_of_all(claim, Instant::now())).gaps();
        let asked = Instant::now();
        let mut rows: Vec<DiscoverRow> = run!(self, "discover", conn => DiscoverQuery::new(claim, &gaps).load(conn))?;
        let now = Instant::now();
        let found: Vec<_> = rows.iter_mut().filter_map(DiscoverRow::level).collect();
        let Some(any) = rows.pop() else { return Ok(Rescanned::Refused) };
        let levels = self.levels(claim.worker, |levels| {
            levels.discovered(&found, any.paused, any.clock, self.stopwatch().since(asked), now);
            let plan = levels.plan_of_all(claim, now).levels();
            (reason == RescanReason::Requested || !levels.are_unchanged(any.changes, now)).then_some(plan)
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
            let found_nothing = found.is_empty() && known.are_for(&claim.kinds);
            known.note_unchanged(found_nothing, any.changes, began, self.stopwatch().since(began));
        });
        Ok(if found.is_empty() { Rescanned::Nothing } else { Rescanned::Found })
    }
}
