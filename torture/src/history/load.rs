//! Writes the rows of a run to its tables, and reads them.

use anyhow::{Context, Result};
use tokio_postgres::Client;

use super::rows::{CommitOutcome, Effect, Ending, Enqueued, Event, Failure, Fault, Job, OpenTransaction, Record};

/// Stores what the application enqueued, so that it can be queried together with the other tables.
pub async fn save(conn: &Client, enqueued: &[Enqueued]) -> Result<()> {
    fn column<T>(rows: &[Enqueued], value: impl Fn(&Enqueued) -> T) -> Vec<T> {
        rows.iter().map(value).collect()
    }
    let numbers = column(enqueued, |row| row.number);
    let jobs = column(enqueued, |row| row.job);
    let outcomes = column(enqueued, |row| row.outcome.as_str());
    let ends = column(enqueued, |row| row.ends.as_str());
    let transactional = column(enqueued, |row| row.transactional);
    let failures = column(enqueued, |row| row.failures.cast_signed());
    let attempts = column(enqueued, |row| row.max_attempts.cast_signed());
    conn.execute(
        "insert into torture.enqueued (number, job, outcome, ends, transactional, failures, max_attempts)
         select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::boolean[], $6::smallint[], $7::smallint[])",
        &[&numbers, &jobs, &outcomes, &ends, &transactional, &failures, &attempts],
    )
    .await?;
    Ok(())
}

/// Copies the events and faults that were recorded in another database to the database of the jobs.
pub async fn copy(from: &Client, to: &Client) -> Result<()> {
    for table in ["event", "fault"] {
        let sql = format!("select coalesce(json_agg(t), '[]')::text from torture.{table} as t");
        let rows: String = from.query_one(&sql, &[]).await?.get(0);
        let sql = format!(
            "insert into torture.{table} select * from json_populate_recordset(null::torture.{table}, $1::text::json)"
        );
        to.execute(&sql, &[&rows]).await?;
    }
    Ok(())
}

/// Reads everything of one run, in one snapshot: the workers of a run that did not come to rest are still at work.
pub async fn load(conn: &Client) -> Result<Record> {
    conn.batch_execute("begin isolation level repeatable read, read only").await?;
    let record = Record {
        enqueued: enqueued(conn).await?,
        events: events(conn).await?,
        effects: effects(conn).await?,
        jobs: jobs(conn).await?,
        failures: failures(conn).await?,
        faults: faults(conn).await?,
        open: open(conn).await?,
    };
    conn.batch_execute("commit").await?;
    Ok(record)
}

async fn enqueued(conn: &Client) -> Result<Vec<Enqueued>> {
    let sql = "select number, job, outcome, ends, transactional, failures, max_attempts from torture.enqueued order by number";
    let rows = conn.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            let outcome = [CommitOutcome::Acknowledged, CommitOutcome::RolledBack, CommitOutcome::Unknown];
            let ending = [Ending::Completed, Ending::Cancelled, Ending::Discarded, Ending::CalledOff];
            Ok(Enqueued {
                number: row.get(0),
                job: row.get(1),
                outcome: outcome
                    .into_iter()
                    .find(|outcome| outcome.as_str() == row.get::<_, &str>(2))
                    .context("an outcome")?,
                ends: ending.into_iter().find(|ends| ends.as_str() == row.get::<_, &str>(3)).context("an ending")?,
                transactional: row.get(4),
                failures: row.get::<_, i16>(5).unsigned_abs(),
                max_attempts: row.get::<_, i16>(6).unsigned_abs(),
            })
        })
        .collect()
}

async fn events(conn: &Client) -> Result<Vec<Event>> {
    let sql = "select number, job, lease, attempt, worker, pid, what, at from torture.event order by at";
    let rows = conn.query(sql, &[]).await?;
    let event = |row: &tokio_postgres::Row| Event {
        number: row.get(0),
        job: row.get(1),
        lease: row.get(2),
        attempt: row.get(3),
        worker: row.get(4),
        pid: row.get(5),
        what: row.get(6),
        at: row.get(7),
    };
    Ok(rows.iter().map(event).collect())
}

async fn effects(conn: &Client) -> Result<Vec<Effect>> {
    let rows = conn.query("select number, lease, worker from torture.effect order by at", &[]).await?;
    Ok(rows.iter().map(|row| Effect { number: row.get(0), lease: row.get(1), worker: row.get(2) }).collect())
}

/// Reads the jobs through the view that users read. Jobs without a number only keep workers busy, and are left out. The
/// number is taken from the text of the arguments and not from their JSON fields: PostgreSQL stores some arguments from
/// which it cannot extract fields.
async fn jobs(conn: &Client) -> Result<Vec<Job>> {
    let sql = r#"select number, id, state, priority, attempt, crashes, lease, worker, run_at, enqueued_at, finished_at
        from (select substring(args::text from '^\{"work":\{"number":(-?[0-9]+),')::bigint as number, * from jobs.job) job
        where number is not null order by id"#;
    let rows = conn.query(sql, &[]).await?;
    let job = |row: &tokio_postgres::Row| Job {
        number: row.get(0),
        id: row.get(1),
        state: row.get(2),
        priority: row.get(3),
        attempt: row.get(4),
        crashes: row.get(5),
        lease: row.get(6),
        worker: row.get(7),
        run_at: row.get(8),
        enqueued_at: row.get(9),
        finished_at: row.get(10),
    };
    Ok(rows.iter().map(job).collect())
}

async fn failures(conn: &Client) -> Result<Vec<Failure>> {
    let rows = conn.query("select job_id, attempt, kind, message, at from jobs.job_error order by at", &[]).await?;
    let failure = |row: &tokio_postgres::Row| Failure {
        job: row.get(0),
        attempt: row.get(1),
        kind: row.get(2),
        message: row.get(3),
        at: row.get(4),
    };
    Ok(rows.iter().map(failure).collect())
}

async fn faults(conn: &Client) -> Result<Vec<Fault>> {
    let rows = conn.query("select what, pid, at from torture.fault order by at", &[]).await?;
    Ok(rows.iter().map(|row| Fault { what: row.get(0), pid: row.get(1), at: row.get(2) }).collect())
}

/// Returns the sessions that have been idle in a transaction for a second. It is called when all work has ended; before
/// that, sessions of running handlers could be among them.
async fn open(conn: &Client) -> Result<Vec<OpenTransaction>> {
    let sql = "select pid, query, extract(epoch from clock_timestamp() - state_change)::float8 from pg_stat_activity
               where datname = current_database() and state like 'idle in transaction%' and state_change < clock_timestamp() - interval '1 second'";
    let rows = conn.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| OpenTransaction { pid: row.get(0), query: row.get(1), seconds: row.get(2) }).collect())
}
