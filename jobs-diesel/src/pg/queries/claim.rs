//! `claim`: leases the best due jobs of the wanted queues, with one statement that is one transaction. The *best* job
//! of a queue is the one with the highest priority, then the earliest `run_at`, then the lowest id. A job is *at risk*
//! if it was in a crash before, or if its next attempt is its last one.
//!
//! - It reads level by level (a level is one priority of one queue). So jobs that are scheduled for later in a high
//!   level cost one index entry, and not one entry each. It stops at the wanted number of rows. At most one additional
//!   row is locked, because the window function reads one row ahead.
//! - It starts each level at its scan floor ([`levels`](crate::pg::levels)), so that entries of jobs that were deleted
//!   long ago cost nothing. Shortly after a full claim it starts at the last job of that claim.
//! - `= any(array(..))` and not `in (..)`: the subselect then runs once under every plan, so its limit holds.
//! - `for update skip locked`: rows that other claims have locked are passed over, and this statement never waits.
//!   `for no key update` would be too weak: it is compatible with a `for key share`, and the delete would then wait for
//!   that lock. No foreign key can take such a lock here.
//! - Before that, rows are passed over whose `xmax` is a transaction that has not ended in this statement's snapshot.
//!   `skip locked` asks the lock manager about each such row, and many claims contend for the lock manager. A claim
//!   sees at once that a lock was released. In two cases `xmax` does not show this: it may be a MultiXact, and it lacks
//!   the epoch of an `xid8`. So two kinds of claims try such rows nevertheless. One is a claim that bypasses the claim
//!   limit. The other is a claim after a [`rescan`](super::rescan) that found the same job twice in succession.
//! - Beyond the free slots it claims only up to the first job at risk, which must not be prefetched
//!   ([`Wanted::prefetch`]).
//! - The commit does not wait for the disk (`synchronous_commit`). If a crash of the database loses a claim, its job is
//!   available again, and the lease refuses the later writes of its worker. `set_config` inside the statement saves the
//!   round trips of a `set local`. After an [`outage`](crate::pg::outage) the commit waits for the disk.
//!
//! Variants were measured without other load, on one connection, with 500 jobs per claim. The unit is jobs per second
//! of the server's processor time (medians of 60 claims, variants in turns). The base is this statement as it was then:
//! it returned thirteen columns, now it returns nine. "What we tried" in PERFORMANCE.md has more.
//!
//! | claim | jobs/s |
//! |---|---|
//! | raw SQL, one level, returns three columns | 181,000 |
//! | the base | 146,000 |
//! | the base, but returns three columns | 173,000 |
//! | the base without the window that finds jobs at risk | 158,000 |
//! | the base, but returns arrays | 131,000 |

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Json, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::Claim;
#[cfg(doc)]
use diesel_jobs_core::storage::Wanted;
use diesel_jobs_core::{ClaimedJob, JobId, Lease, Traceparent, WorkerId};

use super::claim_limit::ClaimLimit;
use super::columns::{CARRIED, READY, RUNNING};
use super::scan::{NOT_PAUSED, Scans};
use crate::flags::FlagsKnown;
use crate::pg::levels::{JobPosition, Plan};
use crate::pg::native::{RawJson, native_query, sql};

pub(crate) struct ClaimQuery<'a> {
    worker: WorkerId,
    into_running: IntoRunning,
    slots: Vec<i64>,
    totals: Vec<i64>,
    most: Most,
    kinds: &'a [String],
    quarantined_at: i32,
    scans: Scans<'a>,
    claim_limit: ClaimLimit,
    durable: bool,
}

impl<'a> ClaimQuery<'a> {
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let slots = claim.wanted.iter().map(|wanted| number(wanted.slots)).collect();
        let totals = claim.wanted.iter().map(|wanted| number(wanted.total())).collect();
        let (scans, claim_limit) = (Scans::new(claim, plan), ClaimLimit::new(claim));
        let quarantined_at = claim.quarantined_at.into();
        let (worker, into_running) = (claim.worker, IntoRunning(claim.worker));
        Self {
            worker,
            into_running,
            slots,
            totals,
            most: Most(None),
            kinds: &claim.kinds,
            quarantined_at,
            scans,
            claim_limit,
            durable: false,
        }
    }

    /// Sets whether the commit waits for the disk.
    pub(crate) fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }
}

impl QueryFragment<Pg> for ClaimQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with claimed as (
    delete from jobs.ready where ctid = any(array(
        select pick.ctid
        from unnest(" {self.scans.queues} ", " [self.slots => Array<BigInt>] ", " [self.totals => Array<BigInt>] ")
            as wanted (queue, first, last, slots, total)
        cross join lateral (
            select job.ctid, row_number() over in_order as place, count(*) filter (where job.at_risk) over in_order as risks
            from " {self.scans} "
            cross join lateral (
                select r.ctid, r.crashes > 0 or r.attempt >= r.max_attempts - 1 as at_risk
                from jobs.ready r
                where r.queue = wanted.queue and r.priority = level.priority
                  and r.run_at >= scan.floor and r.run_at <= now()
                  and (r.xmax = 0 or scan.try_all_rows or " [self.claim_limit.bypass_limit => Bool] " or pg_visible_in_snapshot(r.xmax::text::xid8, (select pg_current_snapshot())))
                  and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("r")} "
                order by r.run_at, r.id
                limit wanted.total
                for update skip locked
            ) job
            window in_order as (rows unbounded preceding)
            limit wanted.total
        ) pick
        where (pick.place <= wanted.slots or pick.risks = 0)
          and (" [self.durable => Bool] " or (select set_config('synchronous_commit', 'off', true)) is not null)
          and " {self.claim_limit} "
          and exists (select from jobs.worker w where w.id = " [self.worker.0 => SqlUuid] ")
          and " NOT_PAUSED {self.most} "
    ))
    " {self.into_running}
        )
    }
}

/// The limit of all queues together. The rows come in the order of the queues, and the server reads no more of them.
struct Most(Option<i64>);

impl QueryFragment<Pg> for Most {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match &self.0 {
            Some(most) => sql!(out, "\n        limit " [*most => BigInt]),
            None => Ok(()),
        }
    }
}

/// A claim with a limit of all queues together. It is a statement of its own, so that the text and the plan of the
/// others do not depend on it.
pub(crate) struct ClaimInTurnsQuery<'a>(ClaimQuery<'a>);

impl<'a> ClaimInTurnsQuery<'a> {
    /// `None` if the claim has no such limit.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Option<Self> {
        let most = i64::try_from(claim.most?).unwrap_or(i64::MAX);
        Some(Self(ClaimQuery { most: Most(Some(most)), ..ClaimQuery::new(claim, plan) }))
    }

    /// See [`ClaimQuery::durable`].
    pub(crate) fn durable(self, durable: bool) -> Self {
        Self(self.0.durable(durable))
    }
}

impl QueryFragment<Pg> for ClaimInTurnsQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }
}

native_query!(ClaimInTurnsQuery<'a> -> Row);

/// The part of each claim after its `delete from jobs.ready`.
pub(super) struct IntoRunning(pub(super) WorkerId);

impl QueryFragment<Pg> for IntoRunning {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(&format!("returning {READY}, {CARRIED}\n)\n"));
        into_running(&self.0, out)
    }
}

/// The part after the common table expression `claimed`.
#[cfg(feature = "testing")]
pub(super) struct ClaimedIntoRunning(pub(super) WorkerId);

#[cfg(feature = "testing")]
impl QueryFragment<Pg> for ClaimedIntoRunning {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        into_running(&self.0, out)
    }
}

/// What a claim returns per job, see [`Row`].
pub(super) const CLAIMED: &str = "id, lease, kind, queue, (flags::bigint << 48) | ((priority::bigint & 65535) << 32) | (attempt::bigint << 16) | max_attempts::bigint,
          coalesce(args, (select payload.args from jobs.payload where job_id = running.id), 'null'), run_at, enqueued_at, claimed_at, traceparent";

fn into_running<'b>(worker: &'b WorkerId, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
    sql!(
        out,
        "insert into jobs.running (" RUNNING ", " CARRIED ")
select id, run_at, lease + 1, attempt + 1, max_attempts, crashes, " [worker.0 => SqlUuid] ", " CARRIED "
from claimed
returning " CLAIMED
    )
}

/// The columns that a claim returns per job. A column costs the server about 0.1 µs per job, and the worker the time to
/// decode it, but a null costs much less. So small numbers share one column. `claimed_at` is the same in every row, and
/// is also the clock of the claim.
pub(super) type Row =
    (BigInt, Integer, Text, Text, BigInt, Json, Timestamptz, Timestamptz, Timestamptz, Nullable<Text>);

native_query!(ClaimQuery<'a> -> Row);

#[derive(Queryable)]
pub(crate) struct ClaimedRow {
    id: i64,
    lease: i32,
    kind: String,
    queue: String,
    #[diesel(deserialize_as = i64)]
    numbers: Numbers,
    args: RawJson,
    run_at: DateTime<Utc>,
    enqueued_at: DateTime<Utc>,
    claimed_at: DateTime<Utc>,
    traceparent: Option<String>,
}

struct Numbers {
    flags: i32,
    priority: i16,
    attempt: u16,
    max_attempts: u16,
}

impl From<i64> for Numbers {
    fn from(packed: i64) -> Self {
        Self {
            flags: (packed >> 48) as i32,
            priority: (packed >> 32) as i16,
            attempt: (packed >> 16) as u16,
            max_attempts: packed as u16,
        }
    }
}

impl ClaimedRow {
    pub(crate) fn position(&self) -> JobPosition<'_> {
        JobPosition { queue: &self.queue, priority: self.numbers.priority, run_at: self.run_at }
    }

    /// The time of the claim by the database's clock. It is the same in every row of a claim.
    pub(crate) fn clock(&self) -> DateTime<Utc> {
        self.claimed_at
    }

    pub(crate) fn into_job(self, worker: WorkerId) -> ClaimedJob {
        let Numbers { flags, priority, attempt, max_attempts } = self.numbers;
        ClaimedJob {
            lease: Lease { job: JobId(self.id), number: self.lease, worker },
            flags: JobFlags(flags),
            kind: self.kind,
            queue: self.queue,
            priority,
            args: self.args.0,
            attempt,
            max_attempts,
            run_at: self.run_at,
            enqueued_at: self.enqueued_at,
            claimed_at: self.claimed_at,
            traceparent: self.traceparent.as_deref().and_then(Traceparent::parse),
            start_by: None,
        }
    }
}

/// Sorts the jobs, best first: by priority, highest first, then by `run_at`, then by id. `returning` does not guarantee
/// an order.
pub(crate) fn sort(jobs: &mut [ClaimedJob]) {
    jobs.sort_unstable_by_key(|job| (std::cmp::Reverse(job.priority), job.run_at, job.lease.job));
}
