//! `events`: what happened to jobs a moment ago. It locks nothing and adds no index.
//!
//! Ended jobs have no index by the time of their end. They have one by the time until which they are kept
//! (`finished_expiry`). Jobs with the same retention end in the order of that index. So the statement reads a part of
//! the index for each retention. For jobs that are kept for ever, it reads the newest jobs by their ids. Failures are
//! read in the order of their numbers (`job_error_newest`). The table of running jobs is small and read as a whole.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{Events, EventsSince, Happened, JobEvent, JobId, JobState, WorkerId};
use uuid::Uuid;

use super::clock::now;
use super::inspect::parsed;
use crate::pg::native::{native_query, sql};
use crate::pg::schema::{job_error, running};

struct EndedQuery {
    since: DateTime<Utc>,
    /// In seconds.
    keeps: Vec<f64>,
}

struct FailuresQuery {
    after: i64,
}

struct KeepsQuery;

type Columns = (i64, String, String, i16, Option<Uuid>);
type StartedRow = (DateTime<Utc>, (i64, String, String, i16, Uuid));
type EndedRow = (DateTime<Utc>, i16, Columns, Option<String>);
type FailureRow = (i64, DateTime<Utc>, Columns, String, String, String);

impl QueryFragment<Pg> for EndedQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with kept as (
    select f.finished_at, f.state, f.id, f.kind, f.queue, f.attempt, f.worker
    from unnest(" [self.keeps => Array<Double>] ") as k (seconds), lateral (
        select * from jobs.finished
        where expires_at > " [self.since => Timestamptz] " + make_interval(secs => k.seconds)
          and expires_at <= now() + make_interval(secs => k.seconds)
        order by expires_at desc limit " [EventsSince::MOST => BigInt] "
    ) f where f.finished_at > " [self.since => Timestamptz] "
    union
    select finished_at, state, id, kind, queue, attempt, worker
    from (select * from jobs.finished order by id desc limit " [EventsSince::NEWEST => BigInt] ") newest
    where finished_at > " [self.since => Timestamptz] "
)
select finished_at, state, id, kind, queue, attempt, worker,
       case when state > 1 then (select e.message from jobs.job_error e where e.job_id = kept.id order by e.id desc limit 1) end
from kept"
        )
    }
}

impl QueryFragment<Pg> for FailuresQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select e.id, e.at, e.job_id, j.kind, j.queue, e.attempt, e.worker, e.kind, e.message, j.state
from (select * from jobs.job_error where id > " [self.after => BigInt] " order by id limit " [EventsSince::MOST => BigInt] ") e,
     lateral (select kind, queue, state from jobs.job where job.id = e.job_id offset 0) j"
        )
    }
}

impl QueryFragment<Pg> for KeepsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select distinct (extract(epoch from expires_at - finished_at) * 1000000)::bigint
from (select expires_at, finished_at from jobs.finished order by id desc limit " [EventsSince::NEWEST => BigInt] ") newest
where expires_at is not null"
        )
    }
}

native_query!(EndedQuery -> (Timestamptz, SmallInt, (BigInt, Text, Text, SmallInt, Nullable<SqlUuid>), Nullable<Text>));
native_query!(FailuresQuery -> (BigInt, Timestamptz, (BigInt, Text, Text, SmallInt, Nullable<SqlUuid>), Text, Text, Text));
native_query!(KeepsQuery -> BigInt);

fn event(at: DateTime<Utc>, event: Happened, columns: Columns, message: Option<String>) -> JobEvent {
    let (id, kind, queue, attempt, worker) = columns;
    let worker = worker.map(WorkerId);
    JobEvent { at, event, id: JobId(id), kind, queue, attempt: attempt.unsigned_abs(), worker, message }
}

pub(crate) async fn events(conn: &mut AsyncPgConnection, since: &EventsSince) -> QueryResult<Events> {
    let now = now(conn).await?;
    let keeps: Vec<i64> = KeepsQuery.load(conn).await?;
    let last = job_error::table.order(job_error::id.desc()).select(job_error::id).first(conn).await.optional()?;
    let Some(at) = since.at else {
        return Ok(Events::new(Vec::new(), since.next(now, last.unwrap_or(0), keeps)));
    };
    let wanted = since.next(now, 0, keeps.iter().copied());
    let query = EndedQuery { since: at, keeps: wanted.keeps.iter().map(|micros| *micros as f64 / 1e6).collect() };
    let mut events: Vec<JobEvent> = Vec::new();
    for (at, state, columns, message) in RunQueryDsl::load::<EndedRow>(query, conn).await? {
        let happened = match state {
            1 => Happened::Completed,
            2 => Happened::Cancelled,
            _ => Happened::Discarded,
        };
        events.push(event(at, happened, columns, message));
    }
    let failures: Vec<FailureRow> = RunQueryDsl::load(FailuresQuery { after: since.failure }, conn).await?;
    let failure = failures.iter().map(|row| row.0).max().unwrap_or(0);
    for (_, at, columns, kind, message, state) in failures {
        // The end of the job is an event of its own.
        if !matches!(parsed(&state), JobState::Discarded | JobState::Cancelled) {
            let happened =
                if matches!(kind.as_str(), "crash" | "killed") { Happened::Rescued } else { Happened::Retried };
            events.push(event(at, happened, columns, Some(message)));
        }
    }
    let started: Vec<StartedRow> = running::table
        .filter(running::claimed_at.gt(at))
        .order(running::claimed_at)
        .limit(EventsSince::MOST)
        .select((running::claimed_at, (running::id, running::kind, running::queue, running::attempt, running::worker)))
        .load(conn)
        .await?;
    for (at, (id, kind, queue, attempt, worker)) in started {
        events.push(event(at, Happened::Started, (id, kind, queue, attempt, Some(worker)), None));
    }
    Ok(Events::new(events, since.next(now, failure, keeps)))
}
