//! Hostile payloads: NUL, half surrogate pairs, NaN, deep nesting, megabytes. They are enqueued through the product,
//! and are also inserted directly into its tables by another program. And there are handlers whose results are hard to
//! store.
//!
//! Each payload is refused with an error, or runs, or fails its attempts with a stored failure. If the product refuses
//! it, the transaction can continue. Nothing stays behind, and no other job is held up.

mod payloads;

use std::time::Duration;

use anyhow::{Result, ensure};
use diesel::result::Error as DieselError;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Enqueue as _, Job as _};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued};
use torture::workload::hostile::{Hostile, Manner, Rude};
use torture::workload::{Mix, Shape, Work, Workload, new_job};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use payloads::{Expected, HostilePayload};

/// The number of ordinary jobs, and how often each of the others is enqueued.
const SHORT: Size = Size { jobs: 300, faults: 1 };
const LONG: Size = Size { jobs: 20_000, faults: 30 };
const WORKERS: usize = 2;
/// The numbers of jobs whose results are hard to store begin at the first. Those of the jobs after a refusal begin at
/// the second.
const RUDE: i64 = 1_000_000;
const AFTERWARDS: i64 = 2_000_000;
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, long: 0, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::from_millis(5));
    let conn = fixture.connect().await?;
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let (mut payloads, mut ledger) = (Vec::new(), Vec::new());
    for round in 0..i64::try_from(size.faults)? {
        payloads.extend(payloads::enqueue(&mut application).await);
        payloads.extend(payloads::write(&conn).await?);
        ledger.extend(rude(&mut application, RUDE + 100 * round).await?);
        ledger.push(go_on(&mut application, AFTERWARDS + round).await?);
    }
    ledger.extend(load.ended().await?.ledger());
    let drained = fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;

    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{} and {} hostile ones, {WORKERS} workers x 8 slots", run.load, payloads.len());
    run.faults = payloads.len();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    for payload in &payloads {
        let complaint = complaint(&conn, payload).await?;
        run.expect(complaint.is_none(), || format!("{}: {}", payload.what, complaint.unwrap_or_default()));
    }
    let long = number(&conn, "select count(*) from jobs.job_error where octet_length(message) > 8192").await?;
    run.expect(long == 0, || format!("{long} failures take more than 8 KiB"));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues jobs whose results are hard to store.
async fn rude(conn: &mut AsyncPgConnection, first: i64) -> Result<Vec<Enqueued>> {
    let mut ledger = Vec::new();
    for (manner, number) in Manner::ALL.into_iter().zip(first..) {
        let cancels = manner.cancels();
        let work = Work { cancels, failures: u16::from(!cancels), max_attempts: 1, ..Work::new(number, Shape::Async) };
        let id = Rude { work: work.clone(), manner }.max_attempts(1).enqueue(conn).await?;
        ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
    }
    Ok(ledger)
}

/// Enqueues a job in a transaction in which the product has refused another job. The transaction must still commit.
async fn go_on(conn: &mut AsyncPgConnection, number: i64) -> Result<Enqueued> {
    let work = Work::new(number, Shape::Async);
    let (mut refused, mut id) = (false, None);
    let job = new_job(&work)?;
    conn.transaction(async |conn| {
        let large = Hostile { text: "x".repeat(300_000), number: 1.0, nested: serde_json::Value::Null };
        refused = large.enqueue(conn).await.is_err_and(|error| error.is_invalid_job());
        id = Some(job.enqueue(conn).await.map_err(DieselError::from)?.0);
        Ok::<_, DieselError>(())
    })
    .await?;
    ensure!(refused, "a job of 300,000 bytes was not refused as one");
    Ok(work.enqueued(id, CommitOutcome::Acknowledged))
}

/// Returns what differs from the expected result.
async fn complaint(conn: &Client, payload: &HostilePayload) -> Result<Option<String>> {
    let Some(id) = payload.id else {
        let may_be = matches!(payload.expected, Expected::Refused | Expected::NotRun);
        return Ok((!may_be).then(|| format!("refused: {}", payload.refusal)));
    };
    let sql = "select state, attempt, (select count(*) from jobs.job_error e where e.job_id = j.id and e.kind = 'undecodable')
               from jobs.job j where id = $1";
    let row = conn.query_one(sql, &[&id]).await?;
    let (state, attempt, failures): (String, i32, i64) = (row.get(0), row.get(1), row.get(2));
    let unread = state == "discarded" && failures == i64::from(attempt) && attempt == 2;
    let as_expected = match payload.expected {
        Expected::Refused => false,
        Expected::NotRun | Expected::Unread => unread,
        Expected::Run => state == "completed" && attempt == 1,
    };
    Ok((!as_expected).then(|| format!("{state} at attempt {attempt}, {failures} failures to read it")))
}
