//! Poisoned rows: SQL inserts rows that cannot be moved to another table, or that the product would never write.
//! Examples are numbers at their maximum, repeated ids, dates in the first and the last year, and kinds of a megabyte.
//! Meanwhile jobs are enqueued at a steady rate.
//!
//! Each such row is moved to `jobs.dead_letter`, or its job ends with its own attempts, or it waits and delays no other
//! job. All other jobs start as promptly as before.

mod bad_rows;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{Enqueued, fault};
use torture::workload::Application;

use super::at_rest::PATIENCE;
use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::{expect_prompt, share_done, steady, waits};
use bad_rows::BadRow;

/// The number of jobs at the steady rate, and the number of rounds of bad rows.
const SHORT: Size = Size { jobs: 600, faults: 2 };
const LONG: Size = Size { jobs: 60_000, faults: 40 };
const BASELINE: i64 = 300;
const SHORT_RATE: f64 = 100.0;
const LONG_RATE: f64 = 500.0;
const WORKERS: usize = 2;
/// The time between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
const SHARE: f64 = 0.95;
const PROMPT: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let rate = if fixture.short { SHORT_RATE } else { LONG_RATE };
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..BASELINE, rate).await?;
    fixture.at_rest(REST).await?;

    let conn = fixture.connect().await?;
    fault(&conn, "rows are planted", None).await?;
    let numbers = BASELINE..BASELINE + i64::try_from(size.jobs)?;
    let (done, planted) =
        tokio::join!(steady(&mut application, numbers.clone(), rate), plant(fixture, &conn, size.faults));
    done?;
    let (bad_rows, others) = planted?;
    let left = bad_rows::settle(&conn, &bad_rows).await?;
    let drained = fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;

    let mut ledger = application.ledger();
    ledger.extend(others);
    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{} at {rate}/s beside {} planted rows, {WORKERS} workers", run.load, bad_rows.len());
    run.faults = bad_rows.len();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(left, || "what no worker can take did not stay where it was".to_owned());
    for bad_row in &bad_rows {
        let complaint = bad_row.complaint(&conn).await?;
        run.expect(complaint.is_none(), || format!("{}: {}", bad_row.what, complaint.unwrap_or_default()));
    }
    let unexplained = number(&conn, "select count(*) from jobs.dead_letter where reason = '' or job is null").await?;
    run.expect(unexplained == 0, || format!("{unexplained} rows were set apart without a reason"));
    compare(&mut run, &numbers, rate);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Inserts all sorts of rows, in this many rounds.
async fn plant(fixture: &Fixture<'_>, conn: &Client, rounds: usize) -> Result<(Vec<BadRow>, Vec<Enqueued>)> {
    let limit = if fixture.mutant().is_some() { PATIENCE } else { REST };
    let (mut bad_rows, mut others) = (Vec::new(), Vec::new());
    for round in 0..i64::try_from(rounds)? {
        let begun = Instant::now();
        bad_rows.extend(bad_rows::waiting(conn).await?);
        bad_rows.extend(bad_rows::running(conn).await?);
        // These rows need jobs that have ended or run. With a mutant there may be none.
        match tokio::time::timeout(limit, bad_rows::repeated(conn, round)).await {
            Ok(repeated) => {
                let (repeated, other) = repeated?;
                bad_rows.extend(repeated);
                others.extend(other);
            }
            Err(_) => break,
        }
        tokio::time::sleep(PAUSE.saturating_sub(begun.elapsed())).await;
    }
    Ok((bad_rows, others))
}

/// Checks that the other jobs start as promptly, and run at the same rate, as without the bad rows.
fn compare(run: &mut Run, numbers: &Range<i64>, rate: f64) {
    run.recovery = waits(&run.record, numbers.clone());
    let beside = run.recovery.clone();
    expect_prompt(run, "beside rows that cannot be moved", &beside, PROMPT);
    let done = share_done(&run.record, numbers.clone(), rate);
    run.expect_in_time(done >= SHARE, || format!("{:.0} % of the offered rate was done", done * 100.0));
}
