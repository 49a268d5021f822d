//! Migration: two processes apply a version that adds a column to the table of waiting jobs, and an index to the table
//! of finished jobs, which is large. Meanwhile the application enqueues, workers work, and transactions that read jobs
//! stay open for seconds.
//!
//! Nothing is lost, one process applies the version, and its index is valid. No enqueue waits for the build.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs_storage::migrations::{Migration, POSTGRES};
use tokio_util::task::AbortOnDropHandle;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::waits;

/// The fewest jobs that are enqueued, and the number of finished jobs, in thousands.
const SHORT: Size = Size { jobs: 100, faults: 100 };
const LONG: Size = Size { jobs: 1_000, faults: 30_000 };
const WORKERS: usize = 2;
const MIGRATING: usize = 2;
const PAUSE: Duration = Duration::from_millis(5);
/// How long each of the readers' transactions stays open, and the pause between two of them.
const OPEN: Duration = Duration::from_secs(2);
const CLOSED: Duration = Duration::from_secs(3);
/// A migration waits for locks no longer than 0.8 s.
const LONGEST_ENQUEUE: Duration = Duration::from_secs(1);
const START: Duration = Duration::from_millis(1500);
const REST: Duration = Duration::from_secs(60);
const UP: &str = "alter table jobs.ready add column extra text;
create index if not exists finished_kind_queue on jobs.finished (kind, queue, id);
insert into jobs.schema_migration (version, name, oldest_program)
    select max(version) + 1, 'next', max(version) from jobs.schema_migration";
const APPLIED: &str = "select count(*) from jobs.schema_migration m join pg_index i on i.indisvalid
    where m.name = 'next' and i.indexrelid = to_regclass('jobs.finished_kind_queue')";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    fill(fixture, size.faults).await?;
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mut application = Application::new(fixture.url());
    application.perform(&EnqueueCall::Single(Work::new(0, Shape::Async))).await?;
    fault(&conn, "the migration begins", None).await?;
    let reader = AbortOnDropHandle::new(tokio::spawn(read(fixture.connect().await?)));
    let begun = Instant::now();
    let migrations: Vec<_> =
        (0..MIGRATING).map(|_| AbortOnDropHandle::new(tokio::spawn(migrate(fixture.url())))).collect();
    let (mut last, mut longest) = (0, Duration::ZERO);
    while last < size.jobs || migrations.iter().any(|migration| !migration.is_finished()) {
        last += 1;
        let sent = Instant::now();
        application.perform(&EnqueueCall::Single(Work::new(i64::try_from(last)?, Shape::Async))).await?;
        longest = longest.max(sent.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    let took = begun.elapsed();
    let mut applied = Vec::new();
    for migration in migrations {
        applied.extend(migration.await??);
    }
    drop(reader);
    let drained = fixture.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    run.load = format!(
        "{} beside {} thousand finished, in {:.0} s; the longest enqueue took {:.2} s",
        run.load,
        size.faults,
        took.as_secs_f64(),
        longest.as_secs_f64()
    );
    run.faults = 1;
    let valid = number(&conn, APPLIED).await?;
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(applied.len() == 1 && valid == 1, || {
        format!("{applied:?} were applied, and {valid} indexes are valid: each should be one")
    });
    run.expect_in_time(longest <= LONGEST_ENQUEUE, || format!("an enqueue took {longest:.2?}"));
    run.recovery = waits(&run.record, 0..i64::try_from(last)? + 1);
    run.expect_within(1.0, START);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Inserts this many thousand finished jobs.
async fn fill(fixture: &Fixture<'_>, thousands: usize) -> Result<()> {
    const MOST: usize = 1_000;
    let conn = fixture.connect().await?;
    for first in (0..thousands).step_by(MOST) {
        let rows = MOST.min(thousands - first) * 1_000;
        conn.batch_execute(&format!(
            "insert into jobs.finished (id, run_at, enqueued_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue, args)
             select nextval('jobs.job_id'), now(), now(), now() + interval '1 day', 1, 1, 0, 1, 25, 0, 'nothing', 'default', '{{}}'
             from generate_series(1, {rows})"
        ))
        .await?;
    }
    Ok(())
}

/// Applies the next version, and returns those that this process has applied.
async fn migrate(url: String) -> Result<Vec<i32>> {
    let known = POSTGRES.iter().map(|of| Migration { version: of.version, name: of.name, up: of.up, down: of.down });
    let version = POSTGRES.last().map_or(0, |newest| newest.version) + 1;
    let next = Migration { version, name: "next", up: UP, down: "" };
    let known: Vec<Migration> = known.chain([next]).collect();
    let mut conn = AsyncPgConnection::establish(&url).await?;
    diesel_jobs_storage::apply_migrations(&mut conn, known.leak(), false).await.context("migrating")
}

/// Reads jobs, in one transaction after the other.
async fn read(conn: tokio_postgres::Client) -> Result<()> {
    loop {
        conn.batch_execute("begin; select from jobs.job limit 1").await?;
        tokio::time::sleep(OPEN).await;
        conn.batch_execute("commit").await?;
        tokio::time::sleep(CLOSED).await;
    }
}
