//! `claim_quarantined`: leases the best due quarantined job, which must run alone. It leases none if enough quarantined
//! jobs are running that were claimed within [`QUARANTINED_COUNTS`]. It finds the few jobs with crashes through
//! separate indexes.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Text, Uuid as SqlUuid};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::{Claim, QUARANTINED_COUNTS, WORKERS_FOR_A_QUARANTINED_JOB};

use super::claim::{IntoRunning, Row};
use super::scan::NOT_PAUSED;
use crate::flags::FlagsKnown;
use crate::pg::advisory::{QUARANTINED, TRY};
use crate::pg::native::{native_query, sql};

/// [`QUARANTINED_COUNTS`] in seconds.
const COUNTS: f64 = QUARANTINED_COUNTS.as_secs_f64();

pub(crate) struct ClaimQuarantinedQuery<'a> {
    worker: WorkerId,
    into_running: IntoRunning,
    queues: Vec<&'a str>,
    kinds: &'a [String],
    quarantined_at: i32,
}

impl<'a> ClaimQuarantinedQuery<'a> {
    pub(crate) fn new(claim: &'a Claim) -> Self {
        let with_a_slot = claim.wanted.iter().filter(|wanted| wanted.slots > 0);
        let queues = with_a_slot.map(|wanted| wanted.queue.as_ref()).collect();
        let (worker, into_running) = (claim.worker, IntoRunning(claim.worker));
        Self { worker, into_running, queues, kinds: &claim.kinds, quarantined_at: claim.quarantined_at.into() }
    }
}

impl QueryFragment<Pg> for ClaimQuarantinedQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // The lock keeps most workers from claiming at the same moment. Otherwise all of them would find that one more
        // quarantined job may run. The lock does not prevent every such case. One quarantined job too many now and then
        // does no harm.
        sql!(
            out,
            "with claimed as (
    delete from jobs.ready where ctid = any(array(
        select r.ctid
        from jobs.ready r
        join unnest(" [self.queues => Array<Text>] ") as wanted (queue) on wanted.queue = r.queue
        where r.crashes > 0 and r.crashes >= " [self.quarantined_at => Integer] " and r.run_at <= now()
          and r.kind = any(" [self.kinds => Array<Text>] ") and " {FlagsKnown("r")} "
          and (select " TRY QUARANTINED ")
          and (select count(*) from jobs.running other where other.crashes > 0 and other.crashes >= " [self.quarantined_at => Integer] "
               and other.claimed_at > now() - make_interval(secs => " [COUNTS => Double] ")) < (select greatest(count(*) / " [WORKERS_FOR_A_QUARANTINED_JOB => BigInt] ", 1) from jobs.worker)
          and exists (select from jobs.worker w where w.id = " [self.worker.0 => SqlUuid] ")
          and " NOT_PAUSED "
        order by r.priority desc, r.run_at, r.id
        limit 1
        for update of r skip locked
    ))
    " {self.into_running}
        )
    }
}

native_query!(ClaimQuarantinedQuery<'a> -> Row);
