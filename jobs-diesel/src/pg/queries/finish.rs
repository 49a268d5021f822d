//! `finish`: moves many jobs out of `running` with one statement, each only if its lease is still valid.
//!
//! Each job is looked up by its id, in the order of the batch. `offset 0` keeps the planner from reversing this loop.
//! It would reverse the loop if its statistics show `running` as empty. Rows of `running` are never updated, so the
//! `ctid` that was found is valid for as long as the row exists.
//!
//! The worker's own finishes pass over rows that another session has locked
//! ([`FinishUnlockedQuery`](super::finish_variants::FinishUnlockedQuery)). Otherwise one locked row would delay all
//! finishes of the process. Inside a handler's transaction the statement waits for the locks, because only that handler
//! waits.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_jobs_core::storage::MAX_ERRORS_PER_JOB;
use diesel_jobs_core::{Failure, Finish, Keep, Transition};
use uuid::Uuid;

use super::columns::{CARRIED, CARRIED_ON, ERROR, FINISHED, HELD, HELD_VALUES, PLACE, READY};
use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::on_discarded::FOLLOWED;
use super::wake::A_WORKER_IS_IDLE;
use crate::pg::native::{native_query, seconds, sql};

/// A batch of transitions, column by column. The verbs are numbers. 1 (completed), 2 (cancelled) and 3 (discarded) are
/// the states of `jobs.finished`. 4 (retry), 5 (snooze) and 6 (release) move the job back to `jobs.ready`. A snooze
/// sets the crashes of its job to 0, because a job may snooze for years.
#[derive(Default)]
pub(crate) struct FinishQuery<'a> {
    ids: Vec<i64>,
    leases: Vec<i32>,
    workers: Vec<Uuid>,
    verbs: Vec<i16>,
    /// The delay of retry and snooze, in seconds from now.
    delays: Vec<Option<f64>>,
    /// Seconds from now until the row may be pruned. Null: never. Negative: the row is not kept at all.
    keeps: Vec<Option<f64>>,
    failure_kinds: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    fingerprints: Vec<Option<i64>>,
    places: Vec<Option<&'a str>>,
    backtraces: Vec<Option<&'a str>>,
}

/// What the statement does in addition to moving jobs. Each variant has a type of its own, because Diesel keeps one
/// prepared statement per type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Adds {
    /// Nothing. Batches without failures do not pay for the columns of failures.
    Nothing,
    /// It records failures.
    Failures,
    /// It records failures, and applies the rules for discarded jobs.
    FailuresAndRules,
    /// It records failures, and looks after the permits of jobs with a limit, the keys of unique jobs, and jobs that
    /// expire and snooze. In the transaction of a handler.
    FailuresAndPermits,
    /// It does all of this.
    Everything,
}

impl Adds {
    fn rules(self) -> bool {
        matches!(self, Self::FailuresAndRules | Self::Everything)
    }

    fn permits(self) -> bool {
        matches!(self, Self::FailuresAndPermits | Self::Everything)
    }
}

/// The jobs with a limit that leave `ready` and `running`. A released job keeps its permit.
const LEAVES: FreePermits =
    FreePermits { from: "moved", when: "verb <> 6", wait_again: "verb in (4, 5)", discarded: "verb = 3" };

/// The unique jobs that end.
const RELEASED: FreeKeys = FreeKeys { from: "moved", when: "verb <= 3" };

pub(super) const FOR_UPDATE: &str = " for update skip locked";

/// The columns of failures in the statement.
const NAMED: &str = ", failure_kind, message, fingerprint, place, backtrace";
const FAILED: &str = ", f.failure_kind, f.message, f.fingerprint, f.place, f.backtrace";

/// The discarded jobs of the batch. `FOLLOWED` comes next.
const GONE: &str = ", gone as (
    select id, kind, queue, attempt, max_attempts, failure_kind, message from moved where verb = 3
), ";

impl<'a> FinishQuery<'a> {
    /// Sorts the batch by id, because batches that lock rows in the same order cannot deadlock.
    pub(crate) fn new(batch: &'a [Finish]) -> Self {
        let mut sorted: Vec<&Finish> = batch.iter().collect();
        sorted.sort_unstable_by_key(|finish| finish.lease.job);
        let mut query = Self::default();
        for finish in sorted {
            query.push(finish);
        }
        query
    }

    fn push(&mut self, Finish { lease, transition, .. }: &'a Finish) {
        let (verb, delay, keep) = match transition {
            Transition::Complete(keep) | Transition::CompleteWith(keep, _) => (1, None, Some(*keep)),
            Transition::Cancel { keep, .. } => (2, None, Some(*keep)),
            Transition::Discard { keep, .. } => (3, None, Some(*keep)),
            Transition::Retry { delay, .. } => (4, Some(seconds(*delay)), None),
            Transition::Snooze(delay) => (5, Some(seconds(*delay)), None),
            Transition::Release => (6, None, None),
        };
        let failure = transition.failure();
        self.ids.push(lease.job.0);
        self.leases.push(lease.number);
        self.workers.push(lease.worker.0);
        self.verbs.push(verb);
        self.delays.push(delay);
        self.keeps.push(keep.and_then(|keep| match keep {
            Keep::Nothing => Some(-1.0),
            Keep::For(time) => Some(seconds(time)),
            Keep::Forever => None,
        }));
        self.failure_kinds.push(failure.map(|Failure { kind, .. }| kind.as_str()));
        self.messages.push(failure.map(|Failure { message, .. }| message.as_str()));
        self.fingerprints.push(failure.map(|failure| failure.fingerprint));
        self.places.push(failure.and_then(|failure| failure.place.as_deref()));
        self.backtraces.push(failure.and_then(|failure| failure.backtrace.as_deref()));
    }

    /// Writes the statement. `lock` is the locking clause for the rows that it will delete. It may be empty.
    pub(super) fn walk<'b>(&'b self, lock: &str, adds: Adds, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let (gone, followed, and_read) = match adds.rules() {
            false => ("", "", ""),
            true => (GONE, FOLLOWED, " and (select count(*) from followed) >= 0"),
        };
        self.write_moved(adds, lock, out.reborrow())?;
        write_ended(adds, out.reborrow())?;
        sql!(
            out,
            "), forgotten as (
    delete from jobs.job_error e using moved m
    where e.job_id = m.id and (m.keep = -1 or e.attempt <= m.attempt - " [MAX_ERRORS_PER_JOB => Integer] ")
      and (m.keep = -1 or m.attempt > " [MAX_ERRORS_PER_JOB => Integer] ")
), emptied as (
    delete from jobs.payload where job_id = any(array(select id from moved where args is null and keep = -1))
), woken as (
    select jobs.notify_workers(queue) from moved where verb = 6 and " A_WORKER_IS_IDLE "
)" gone followed
        )?;
        if adds.permits() {
            sql!(out, ", " {LEAVES} ", " {RELEASED})?;
        }
        sql!(
            out,
            "\nselect coalesce(array_agg(id) filter (where (select count(*) from woken) >= 0" and_read "), '{}') from moved"
        )
    }

    /// Deletes the rows, and writes the common table expression of the deleted ones.
    fn write_moved<'b>(&'b self, adds: Adds, lock: &str, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let (named, failed) = if adds == Adds::Nothing { ("", "") } else { (NAMED, FAILED) };
        let moved: QueryResult<()> = sql!(
            out,
            "with moved as (
    delete from jobs.running r
    using (
        select held.ctid, f.verb, f.delay, f.keep" failed "
        from unnest(" [self.ids => Array<BigInt>] ", " [self.leases => Array<Integer>] ", " [self.workers => Array<SqlUuid>] ", "
            [self.verbs => Array<SmallInt>] ", " [self.delays => Array<Nullable<Double>>] ", " [self.keeps => Array<Nullable<Double>>]
        );
        moved?;
        if adds != Adds::Nothing {
            let failures: QueryResult<()> = sql!(
                out,
                ", " [self.failure_kinds => Array<Nullable<Text>>] ", " [self.messages => Array<Nullable<Text>>] ", "
                [self.fingerprints => Array<Nullable<BigInt>>] ", " [self.places => Array<Nullable<Text>>] ", "
                [self.backtraces => Array<Nullable<Text>>]
            );
            failures?;
        }
        sql!(
            out,
            ")
            as f (id, lease, worker, verb, delay, keep" named ")
        cross join lateral (
            select r.ctid from jobs.running r where r.id = f.id and r.lease = f.lease and r.worker = f.worker offset 0" lock "
        ) held
    ) f
    where r.ctid = f.ctid
    returning r.*, f.verb, f.delay, f.keep" failed "
"
        )
    }
}

/// Writes the rows of jobs that have ended or wait again, and the failures.
fn write_ended(adds: Adds, mut out: AstPass<'_, '_, Pg>) -> QueryResult<()> {
    let ended: QueryResult<()> = sql!(
        out,
        "), ended as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, claimed_at, now() + make_interval(secs => keep), lease, verb, attempt, max_attempts, crashes, worker, " CARRIED "
    from moved where verb <= 3 and keep is distinct from -1
), returned as (
    insert into jobs.ready (" READY ", " CARRIED ")
    select id, coalesce(clock_timestamp() + make_interval(secs => delay), run_at), lease,
           case when verb = 4 then attempt else greatest(attempt - 1, 0) end, max_attempts, case when verb = 5 then 0 else crashes end, " (if adds.permits() { CARRIED_ON } else { CARRIED }) "
    from moved where verb >= 4" (if adds.permits() { " and (verb = 6 or rules is null)" } else { "" }) "
"
    );
    ended?;
    if adds == Adds::Nothing {
        return Ok(());
    }
    if adds.permits() {
        sql!(
            out,
            "), held_again as (
    insert into jobs.held (" READY ", " CARRIED ", " HELD ")
    select id, clock_timestamp() + make_interval(secs => delay), lease,
           case when verb = 4 then attempt else greatest(attempt - 1, 0) end, max_attempts, case when verb = 5 then 0 else crashes end, " CARRIED_ON ",
           delay > 0, " HELD_VALUES "
    from moved " PLACE " where verb in (4, 5) and rules is not null
"
        )?;
    }
    sql!(
        out,
        "), recorded as (
    insert into jobs.job_error (" ERROR ", place, backtrace)
    select id, attempt, claimed_at, worker, failure_kind, message, fingerprint, place, backtrace
    from moved where failure_kind is not null and keep is distinct from -1
"
    )
}

impl QueryFragment<Pg> for FinishQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.walk("", Adds::Failures, out)
    }
}

// The ids come as one array in one row. Five hundred rows would cost more than the other work on these finishes.
native_query!(FinishQuery<'a> -> Array<BigInt>);
