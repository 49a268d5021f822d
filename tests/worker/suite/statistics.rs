//! `pg_stat_statements` has one entry for each statement of ours, however many jobs run. The server keeps a limited
//! number of entries, so an entry per job would push out those of the application.

use std::time::Duration;

use diesel::PgConnection;
use diesel::connection::SimpleConnection as _;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatchIn, HandleBlockingBatchIn};
use diesel_jobs::operator::Objectives;
use diesel_jobs::prelude::*;
use diesel_jobs::worker::Registry;
use diesel_jobs::{JobBuilder, job};
use serde::{Deserialize, Serialize};
use support::{Db, registry};

const EFFECT: &str = "insert into effect (name) values ('one')";

#[job(max_attempts = 1)]
async fn counted_async(conn: &mut AsyncPgConnection, fails: bool) -> Result<(), JobError> {
    conn.batch_execute(EFFECT).await.map_err(JobError::new)?;
    if fails { Err(JobError::msg("refused")) } else { Ok(()) }
}

#[job(max_attempts = 1)]
fn counted_blocking(conn: &mut PgConnection, fails: bool) -> Result<(), JobError> {
    conn.batch_execute(EFFECT).map_err(JobError::new)?;
    if fails { Err(JobError::msg("refused")) } else { Ok(()) }
}

/// Its end has several statements.
#[job]
async fn with_output_async(conn: &mut AsyncPgConnection, number: i64) -> Result<i64, JobError> {
    conn.batch_execute(EFFECT).await.map_err(JobError::new)?;
    Ok(number)
}

#[job]
fn with_output_blocking(conn: &mut PgConnection, number: i64) -> Result<i64, JobError> {
    conn.batch_execute(EFFECT).map_err(JobError::new)?;
    Ok(number)
}

#[derive(Serialize, Deserialize, Job)]
#[job(batch(max = 3), connection = AsyncPgConnection)]
struct TogetherAsync {}

impl HandleBatchIn<AsyncPgConnection> for TogetherAsync {
    async fn handle(jobs: Vec<Self>, conn: &mut AsyncPgConnection, _: BatchContext) -> BatchHandled {
        conn.batch_execute(EFFECT).await.map_err(JobError::new)?;
        Ok(jobs.iter().map(|_| Ok(Outcome::Complete)).collect())
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(batch(max = 3), blocking = true, connection = PgConnection)]
struct TogetherBlocking {}

impl HandleBlockingBatchIn<PgConnection> for TogetherBlocking {
    fn handle(jobs: Vec<Self>, conn: &mut PgConnection, _: BatchContext) -> BatchHandled {
        conn.batch_execute(EFFECT).map_err(JobError::new)?;
        Ok(jobs.iter().map(|_| Ok(Outcome::Complete)).collect())
    }
}

struct Kind {
    registry: Registry,
    jobs: fn(i64) -> [JobBuilder; 4],
}

fn async_kind() -> Kind {
    Kind {
        registry: registry![CountedAsync, WithOutputAsync, TogetherAsync],
        jobs: |number| {
            [
                CountedAsync { fails: false }.into(),
                CountedAsync { fails: true }.into(),
                WithOutputAsync { number }.into(),
                TogetherAsync {}.into(),
            ]
        },
    }
}

fn blocking_kind() -> Kind {
    Kind {
        registry: registry![CountedBlocking, WithOutputBlocking, TogetherBlocking],
        jobs: |number| {
            [
                CountedBlocking { fails: false }.into(),
                CountedBlocking { fails: true }.into(),
                WithOutputBlocking { number }.into(),
                TogetherBlocking {}.into(),
            ]
        },
    }
}

/// The entries of this database that differ only in numbers, quoted texts or random names: how many, and one of them.
const ALIKE: &str = r"select concat(count(*), ' entries: ', min(query)) as text
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = current_database()
    group by regexp_replace(regexp_replace(regexp_replace(query, '''[^'']*''', '?', 'g'), '[0-9a-f]{8,}', '?', 'g'), '[0-9]+', '?', 'g')
    having count(*) > 1";

async fn a_statement_has_one_entry_for_all_jobs(db: Db, kind: Kind) {
    // This fails if the tests' server could not load the extension.
    db.execute("create extension pg_stat_statements").await;
    for number in 0..8 {
        for job in (kind.jobs)(number) {
            db.enqueue(job).await;
        }
    }
    db.work(kind.registry).await;
    assert_eq!(db.number("select count(*) as number from jobs.finished where state = 1").await, 24);
    assert_eq!(db.number("select count(*) as number from jobs.finished where state = 3").await, 8);
    let alike = db.conn().await.texts(ALIKE).await;
    assert!(alike.is_empty(), "{}", alike.join("\n"));
    let counted = "select count(*) as number from pg_stat_statements s join pg_database d on d.oid = s.dbid
        where d.datname = current_database() and query ilike '%application_name%'";
    assert!(db.number(counted).await > 0, "the statement that names the job was not counted: nothing was tested");
}

/// With other objectives each time.
async fn a_statement_of_the_doctor_has_one_entry(db: Db) {
    db.execute("create extension pg_stat_statements").await;
    for minutes in 1..4 {
        let [oldest_due, transaction] = [60, 90].map(|seconds| Duration::from_secs(seconds * minutes));
        db.database().operator.examine(Objectives { oldest_due, transaction }, None).await.unwrap();
    }
    let alike = db.conn().await.texts(ALIKE).await;
    assert!(alike.is_empty(), "{}", alike.join("\n"));
    let listens = "select sum(calls)::bigint as number from pg_stat_statements s join pg_database d on d.oid = s.dbid
        where d.datname = current_database() and query ilike 'listen jobs_doctor%'";
    assert_eq!(db.number(listens).await, 3);
}

support::on_postgres! { a_statement_of_the_doctor_has_one_entry }

on_each_connection! {
    a_statement_has_one_entry_for_all_jobs,
}
