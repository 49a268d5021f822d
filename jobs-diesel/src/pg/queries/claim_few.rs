//! `claim_few`: a shorter [`claim`](super::claim) for a common case. The worker has little to do, serves one queue and
//! knows one level of it. The statement claims at most as many jobs as slots are free. In a claim of one job, most of
//! the time is the start of the plan, and this plan has a third of the nodes. The statement returns no rows while a job
//! waits above the level. Then the caller makes the other claim. With this statement an idle worker needs a fifth less
//! time to start a job.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Integer, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Claim;

use super::claim::{IntoRunning, Row};
use super::claim_limit::ClaimLimit;
use super::scan::NOT_PAUSED;
use crate::flags::FlagsKnown;
use crate::pg::levels::{OnlyLevel, Plan};
use crate::pg::native::{native_query, sql};

pub(crate) struct ClaimFewQuery<'a> {
    worker: WorkerId,
    into_running: IntoRunning,
    queue: &'a str,
    slots: i64,
    level: OnlyLevel,
    kinds: &'a [String],
    quarantined_at: i32,
    claim_limit: ClaimLimit,
    durable: bool,
}

impl<'a> ClaimFewQuery<'a> {
    /// Returns `None` if this is not that common case. Then the other claim is needed.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Option<Self> {
        let [wanted] = claim.wanted.as_slice() else { return None };
        let level = plan.only_level()?;
        (wanted.slots > 0 && !claim.bypass_limit).then(|| Self {
            worker: claim.worker,
            into_running: IntoRunning(claim.worker),
            queue: &wanted.queue,
            slots: i64::try_from(wanted.slots).unwrap_or(i64::MAX),
            level,
            kinds: &claim.kinds,
            quarantined_at: claim.quarantined_at.into(),
            claim_limit: ClaimLimit::new(claim),
            durable: false,
        })
    }

    /// Sets whether the commit waits for the disk.
    pub(crate) fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }
}

impl QueryFragment<Pg> for ClaimFewQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with claimed as (
    delete from jobs.ready where ctid = any(array(
        select r.ctid
        from (select " [self.queue => Text] " as queue, " [self.level.priority => SmallInt] " as priority) wanted
        join jobs.ready r on r.queue = wanted.queue and r.priority = wanted.priority
        where r.run_at >= " [self.level.floor => Timestamptz] " and r.run_at <= now()
          and (r.xmax = 0 or pg_visible_in_snapshot(r.xmax::text::xid8, (select pg_current_snapshot())))
          and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("r")} "
          and (" [self.durable => Bool] " or (select set_config('synchronous_commit', 'off', true)) is not null)
          and " {self.claim_limit} "
          and not (" [self.level.gap_above => Bool] " and exists (
              select from jobs.ready above where above.queue = " [self.queue => Text] " and above.priority > " [self.level.priority => SmallInt] "))
          and exists (select from jobs.worker w where w.id = " [self.worker.0 => SqlUuid] ")
          and " NOT_PAUSED "
        order by r.run_at, r.id
        limit " [self.slots => BigInt] "
        for update of r skip locked
    ))
    " {self.into_running}
        )
    }
}

native_query!(ClaimFewQuery<'a> -> Row);
