//! `finish`: moves jobs out of `running`, many at once, each only if its lease still stands. One statement.
//!
//! Each job is looked up by its id, in the order of the batch: `offset 0` keeps the planner from turning the loop around,
//! which it would like to do whenever it has last seen `running` empty. Rows of `running` are never updated, so that
//! the place found is the row's for as long as it exists.
//!
//! The worker's own finishes pass over rows that somebody has locked ([`FinishUnlockedQuery`]): one locked row would
//! otherwise hold up all finishes of the process. Inside a handler's transaction the statement waits for the lock: only that
//! handler waits.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::MAX_ERRORS_PER_JOB;
use diesel_jobs_core::{Failure, Finish, Keep, Transition};
use uuid::Uuid;

use super::columns::{CARRIED, ERROR, FINISHED, READY};
use super::complete::CompleteQuery;
use super::delete::DeleteQuery;
use super::wake::SOMEBODY_SLEEPS;
use crate::pg::native::{native_query, seconds, sql};

/// Transitions column by column. The verbs as numbers: 1 completed, 2 cancelled, 3 discarded are the states of
/// `jobs.finished`; 4 retry, 5 snooze, 6 release go back to `jobs.ready`. A job that snoozes is absolved of its crashes: it
/// may do so for years.
#[derive(Default)]
pub(crate) struct FinishQuery<'a> {
    ids: Vec<i64>,
    leases: Vec<i32>,
    workers: Vec<Uuid>,
    verbs: Vec<i16>,
    /// Seconds from now: the delay of retry and snooze.
    delays: Vec<Option<f64>>,
    /// Seconds from now until the row may be pruned; null for ever, negative not kept at all.
    keeps: Vec<Option<f64>>,
    failure_kinds: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
}

impl<'a> FinishQuery<'a> {
    /// Sorted by id: batches that lock rows in one order cannot deadlock.
    pub(crate) fn new(batch: &'a [Finish]) -> Self {
        let mut sorted: Vec<&Finish> = batch.iter().collect();
        sorted.sort_unstable_by_key(|finish| finish.lease.job);
        let mut query = Self::default();
        for finish in sorted {
            query.push(finish);
        }
        query
    }

    fn push(&mut self, Finish { lease, transition }: &'a Finish) {
        let (verb, delay, keep) = match transition {
            Transition::Complete(keep) => (1, None, Some(*keep)),
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
    }

    /// The statement; `lock` is what it does about the rows it is going to delete before it deletes them.
    fn walk<'b>(&'b self, lock: &str, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with moved as (
    delete from jobs.running r
    using (
        select held.ctid, f.verb, f.delay, f.keep, f.failure_kind, f.message
        from unnest(" [self.ids => Array<BigInt>] ", " [self.leases => Array<Integer>] ", " [self.workers => Array<SqlUuid>] ", "
            [self.verbs => Array<SmallInt>] ", " [self.delays => Array<Nullable<Double>>] ", " [self.keeps => Array<Nullable<Double>>] ", "
            [self.failure_kinds => Array<Nullable<Text>>] ", " [self.messages => Array<Nullable<Text>>] ")
            as f (id, lease, worker, verb, delay, keep, failure_kind, message)
        cross join lateral (
            select r.ctid from jobs.running r where r.id = f.id and r.lease = f.lease and r.worker = f.worker offset 0" lock "
        ) held
    ) f
    where r.ctid = f.ctid
    returning r.*, f.verb, f.delay, f.keep, f.failure_kind, f.message
), ended as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, claimed_at, now() + make_interval(secs => keep), lease, verb, attempt, max_attempts, crashes, worker, " CARRIED "
    from moved where verb <= 3 and keep is distinct from -1
), returned as (
    insert into jobs.ready (" READY ", " CARRIED ")
    select id, coalesce(clock_timestamp() + make_interval(secs => delay), run_at), lease,
           case when verb = 4 then attempt else greatest(attempt - 1, 0) end, max_attempts, case when verb = 5 then 0 else crashes end, " CARRIED "
    from moved where verb >= 4
), recorded as (
    insert into jobs.job_error (" ERROR ")
    select id, attempt, claimed_at, worker, failure_kind, message from moved where failure_kind is not null and keep is distinct from -1
), forgotten as (
    delete from jobs.job_error e using moved m
    where e.job_id = m.id and (m.keep = -1 or e.attempt <= m.attempt - " [MAX_ERRORS_PER_JOB => Integer] ")
      and (m.keep = -1 or m.attempt > " [MAX_ERRORS_PER_JOB => Integer] ")
), emptied as (
    delete from jobs.payload where job_id = any(array(select id from moved where args is null and keep = -1))
), woken as (
    select pg_notify('jobs', queue) from moved where verb = 6 and " SOMEBODY_SLEEPS "
)
select coalesce(array_agg(id) filter (where (select count(*) from woken) >= 0), '{}') from moved"
        )
    }
}

impl QueryFragment<Pg> for FinishQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.walk("", out)
    }
}

/// `finish` of the rows that nobody has locked.
pub(crate) struct FinishUnlockedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for FinishUnlockedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(" for update skip locked", out)
    }
}

/// Moves these jobs out of `running`, with the statements that cost least; the ids of those whose lease stood and whose row
/// nobody has locked.
pub(crate) async fn finish(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<i64>> {
    let mut moved = complete(conn, batch).await?;
    if moved.len() < batch.len() {
        let rest: Vec<Finish> = batch.iter().filter(|one| !moved.contains(&one.lease.job.0)).cloned().collect();
        // One row; but `get_result` answers with it before the statement is committed.
        let rest: Vec<Vec<i64>> = FinishUnlockedQuery(FinishQuery::new(&rest)).load(conn).await?;
        moved.extend(rest.into_iter().flatten());
    }
    Ok(moved)
}

/// The same inside the transaction of a handler, which waits for its own row.
pub(crate) async fn finish_in(conn: &mut AsyncPgConnection, finish: &[Finish; 1]) -> QueryResult<bool> {
    let moved: Vec<i64> = FinishQuery::new(finish).get_result(conn).await?;
    Ok(!moved.is_empty())
}

async fn complete(conn: &mut AsyncPgConnection, batch: &[Finish]) -> QueryResult<Vec<i64>> {
    if let Some(complete) = CompleteQuery::new(batch) {
        return complete.complete(conn).await;
    }
    // One row; but `get_result` answers with it before the statement is committed.
    let moved: Vec<Vec<i64>> = match DeleteQuery::new(batch) {
        Some(delete) => delete.load(conn).await?,
        None => Vec::new(),
    };
    Ok(moved.into_iter().flatten().collect())
}

// One row: five hundred of one column each would cost more than the finishes' own bookkeeping.
native_query!(FinishQuery<'a> -> Array<BigInt>);
native_query!(FinishUnlockedQuery<'a> -> Array<BigInt>);
