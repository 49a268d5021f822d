//! `set_apart`: moves rows that block a statement of the worker into `jobs.dead_letter`, with the reason. It runs only
//! after the database has refused such a statement.
//!
//! A row can block a statement for two reasons. Its id was assigned twice, because a sequence was set back after a
//! logical failover or a restore. Or it was written by hand, with numbers that cannot be increased or values that
//! cannot be put back into `jobs.ready`. Of two waiting rows with one id, the later one is set apart. A waiting row
//! with the id of a running job is set apart, so that the running job keeps its lease. A finished row with the id of a
//! running job is set apart, so that this job can end.
//!
//! `jobs.ready` may hold millions of rows. So only those waiting rows are checked that the refused claim read, by the
//! same search. Rows that another session has locked are passed over, as in the claim. Running rows are few, and all of
//! them are checked.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Text};
use diesel_jobs_core::storage::Claim;

use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::scan::Scans;
use crate::flags::FlagsKnown;
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, sql};

/// The part after the rows of `jobs.ready` that a claim read (`looked`). It sets apart those that no claim can move to
/// `jobs.running`.
const SET_UNCLAIMABLE_APART: &str = "), culprit as materialized (
    select looked.ctid as place, case
        when attempt = 32767 or lease = 2147483647 then 'its attempt or its lease number is the largest possible'
        when exists (select from jobs.running where running.id = looked.id) then 'a running job has the same id'
        when row_number() over (partition by id order by enqueued_at) > 1 then 'another waiting job has the same id'
        end as reason
    from looked
), gone as (
    delete from jobs.ready where ctid = any(array(select place from culprit where reason is not null))
    returning id, kind, queue, flags, rules, (select reason from culprit where place = ready.ctid) as reason, row_to_json(ready) as job
), ";

/// The rest of it.
const KEEP_THEM: &str = ", kept as (
    insert into jobs.dead_letter (id, kind, queue, reason, job) select id, kind, queue, reason, job from gone
)
select id, kind, reason from gone";

/// A row whose id another row has, too, leaves the permit to that one. A sequence halts as if the job was discarded.
const FREED: FreePermits = FreePermits {
    from: "gone",
    when: "reason = 'its attempt or its lease number is the largest possible'",
    wait_again: "false",
    discarded: "true",
};

/// A discarded job also releases its unique key.
const RELEASED: FreeKeys = FreeKeys { from: "gone", when: FREED.when };

/// Sets apart waiting rows that this claim cannot move to `jobs.running`.
pub(crate) struct SetWaitingApart<'a> {
    totals: Vec<i64>,
    kinds: &'a [String],
    quarantined_at: i32,
    scans: Scans<'a>,
}

impl<'a> SetWaitingApart<'a> {
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        let total = |wanted: &diesel_jobs_core::storage::Wanted| i64::try_from(wanted.total()).unwrap_or(i64::MAX);
        Self {
            totals: claim.wanted.iter().map(total).collect(),
            kinds: &claim.kinds,
            quarantined_at: claim.quarantined_at.into(),
            scans: Scans::new(claim, plan),
        }
    }
}

impl QueryFragment<Pg> for SetWaitingApart<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with looked as materialized (
    select pick.*
    from unnest(" {self.scans.queues} ", " [self.totals => Array<BigInt>] ") as wanted (queue, first, last, total)
    cross join lateral (
        select job.*
        from " {self.scans} "
        cross join lateral (
            select r.ctid, r.id, r.attempt, r.lease, r.enqueued_at from jobs.ready r
            where r.queue = wanted.queue and r.priority = level.priority
              and r.run_at >= scan.floor and r.run_at <= now()
              and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("r")} "
            order by r.run_at, r.id
            limit wanted.total
            for update skip locked
        ) job
        limit wanted.total
    ) pick
" SET_UNCLAIMABLE_APART {FREED} ", " {RELEASED} KEEP_THEM
        )
    }
}

native_query!(SetWaitingApart<'a> -> (BigInt, Text, Text));

/// Sets apart quarantined rows that no claim can move, among those that [`claim_quarantined`](super::claim_quarantined)
/// reads.
pub(crate) struct SetQuarantinedApart {
    quarantined_at: i32,
}

impl SetQuarantinedApart {
    pub(crate) fn new(claim: &Claim) -> Self {
        Self { quarantined_at: claim.quarantined_at.into() }
    }
}

impl QueryFragment<Pg> for SetQuarantinedApart {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with looked as materialized (
    select r.ctid, r.id, r.attempt, r.lease, r.enqueued_at from jobs.ready r
    where r.crashes > 0 and r.crashes >= " [self.quarantined_at => Integer] " and r.run_at <= now() and " {FlagsKnown("r")} "
    for update skip locked
" SET_UNCLAIMABLE_APART {FREED} ", " {RELEASED} KEEP_THEM
        )
    }
}

native_query!(SetQuarantinedApart -> (BigInt, Text, Text));

/// The part after the condition for finished rows that keep a later job with the same id from ending.
const SET_HISTORY_APART: &str = "
    returning id, kind, queue, 'a later job has the same id'::text as reason, row_to_json(finished) as job
), kept as (
    insert into jobs.dead_letter (id, kind, queue, reason, job) select id, kind, queue, reason, job from gone
)
select id, kind, reason from gone";

/// Sets apart finished rows with the id of a running job, because this job could not end. The finished row is the older
/// one of the two.
pub(crate) struct SetFinishedApart;

impl QueryFragment<Pg> for SetFinishedApart {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with gone as (
    delete from jobs.finished
    where id = any(array(select id from jobs.running)) and " {FlagsKnown("finished")} SET_HISTORY_APART
        )
    }
}

native_query!(SetFinishedApart -> (BigInt, Text, Text));

/// The same for these jobs, most of which wait.
pub(crate) struct SetHistoryApart<'a> {
    pub(crate) ids: &'a [i64],
}

impl QueryFragment<Pg> for SetHistoryApart<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with gone as (
    delete from jobs.finished
    where id = any(array(
        select id from jobs.held where id = any(" [self.ids => Array<BigInt>] ")
        union all select id from jobs.ready where id = any(" [self.ids => Array<BigInt>] ")
        union all select id from jobs.running where id = any(" [self.ids => Array<BigInt>] ")
    )) and " {FlagsKnown("finished")} SET_HISTORY_APART
        )
    }
}

native_query!(SetHistoryApart<'a> -> (BigInt, Text, Text));

/// A sequence halts as if the job was discarded.
const SET_APART: FreePermits = FreePermits { discarded: "true", ..FreePermits::ended("gone") };

/// Sets apart running rows that neither a finish nor a rescue can put back into `jobs.ready`, because of its
/// constraints, its trigger or the notification. No claim makes such a row.
pub(crate) struct SetRunningApart;

impl QueryFragment<Pg> for SetRunningApart {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with culprit as materialized (
    select id as culprit, case
        when run_at not between '0001-01-01' and '9999-12-31' or enqueued_at not between '0001-01-01' and '9999-12-31'
            then 'no waiting job can have its dates'
        when max_attempts < 1 or attempt < 0 or crashes < 0 or lease < 0 then 'no waiting job can have its numbers'
        when array_ndims(tags) <> 1 or array_position(tags, null) is not null then 'no waiting job can have its tags'
        when octet_length(queue) >= 8000 then 'the name of its queue is too long for a notification'
        when octet_length(args::text) > 262144
            or pg_column_size(args) > 2000 and exists (select from jobs.payload where job_id = running.id)
            or args is null and lease = 0 and not exists (select from jobs.payload where job_id = running.id)
            then 'its arguments are too large, or missing'
        when exists (select from jobs.ready r where r.queue = running.queue and r.priority = running.priority
                     and r.run_at = running.run_at and r.id = running.id)
            then 'a waiting job has the same id, queue, priority and time'
        end as reason
    from jobs.running where " {FlagsKnown("running")} "
), gone as (
    delete from jobs.running where id = any(array(select culprit from culprit where reason is not null))
    returning id, kind, queue, flags, rules, (select reason from culprit where culprit.culprit = running.id) as reason, row_to_json(running) as job
), " {SET_APART} ", " {FreeKeys { from: "gone", when: "true" }} ", kept as (
    insert into jobs.dead_letter (id, kind, queue, reason, job) select id, kind, queue, reason, job from gone
)
select id, kind, reason from gone"
        )
    }
}

native_query!(SetRunningApart -> (BigInt, Text, Text));
