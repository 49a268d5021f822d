//! Poisoned rows: somebody writes rows into the tables by SQL that cannot be moved on, or that no program of ours would write:
//! numbers at their ends, ids that are there already, dates of the first and of the last year, kinds of a megabyte. Jobs come at a
//! steady rate meanwhile.
//!
//! Each such row is set apart in `jobs.dead_letter`, or ends by its own attempts, or waits and is in nobody's way. All others
//! start as promptly as before.

mod guests;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{Enqueued, fault};
use torture::workload::Application;

use super::arena::{Arena, History, PATIENCE, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::{expect_prompt, share_done, steady, waits};
use guests::Guest;

/// Jobs at the steady rate beside the rows, and rounds of rows.
const SHORT: Size = Size { jobs: 600, faults: 2 };
const LONG: Size = Size { jobs: 60_000, faults: 40 };
const BASELINE: i64 = 300;
const SHORT_RATE: f64 = 100.0;
const LONG_RATE: f64 = 500.0;
const WORKERS: usize = 2;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
const SHARE: f64 = 0.95;
const PROMPT: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_secs(60);

pub(super) async fn run(arena: &Arena<'_>) -> Result<Run> {
    let size = arena.size(SHORT, LONG);
    let rate = if arena.short { SHORT_RATE } else { LONG_RATE };
    let args = ["--concurrency", "16", "--poll", "200ms"];
    let mut fleet = Fleet::start(arena, arena.worker_url(), History::Quick, &args, WORKERS).await?;
    let mut application = Application::new(arena.url());
    steady(&mut application, 0..BASELINE, rate).await?;
    arena.at_rest(REST).await?;

    let conn = arena.connect().await?;
    fault(&conn, "rows are planted", None).await?;
    let numbers = BASELINE..BASELINE + i64::try_from(size.jobs)?;
    let (done, planted) =
        tokio::join!(steady(&mut application, numbers.clone(), rate), plant(arena, &conn, size.faults));
    done?;
    let (guests, others) = planted?;
    let left = guests::settle(&conn, &guests).await?;
    let drained = arena.at_rest(REST).await?;
    let dead = fleet.dead()?;

    let mut ledger = application.ledger();
    ledger.extend(others);
    let mut run = Run::judge(arena, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{} at {rate}/s beside {} planted rows, {WORKERS} workers", run.load, guests.len());
    run.faults = guests.len();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(left, || "what no worker can take did not stay where it was".to_owned());
    for guest in &guests {
        let complaint = guest.complaint(&conn).await?;
        run.expect(complaint.is_none(), || format!("{}: {}", guest.what, complaint.unwrap_or_default()));
    }
    let unexplained = number(&conn, "select count(*) from jobs.dead_letter where reason = '' or job is null").await?;
    run.expect(unexplained == 0, || format!("{unexplained} rows were set apart without a reason"));
    compare(&mut run, &numbers, rate);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Plants all sorts of rows, time and again.
async fn plant(arena: &Arena<'_>, conn: &Client, rounds: usize) -> Result<(Vec<Guest>, Vec<Enqueued>)> {
    let limit = if arena.mutant().is_some() { PATIENCE } else { REST };
    let (mut guests, mut others) = (Vec::new(), Vec::new());
    for round in 0..i64::try_from(rounds)? {
        let begun = Instant::now();
        guests.extend(guests::waiting(conn).await?);
        guests.extend(guests::running(conn).await?);
        // These need jobs that have ended or run, which a mutant may never have.
        match tokio::time::timeout(limit, guests::repeated(conn, round)).await {
            Ok(repeated) => {
                let (repeated, other) = repeated?;
                guests.extend(repeated);
                others.extend(other);
            }
            Err(_) => break,
        }
        tokio::time::sleep(PAUSE.saturating_sub(begun.elapsed())).await;
    }
    Ok((guests, others))
}

/// The others are as prompt, and as many, as without those rows.
fn compare(run: &mut Run, numbers: &Range<i64>, rate: f64) {
    run.recovery = waits(&run.record, numbers.clone());
    let (before, beside) = (waits(&run.record, 0..BASELINE), run.recovery.clone());
    expect_prompt(run, "beside rows that cannot be moved", &beside, &before, PROMPT);
    let done = share_done(&run.record, numbers.clone(), rate);
    run.expect(done >= SHARE, || format!("{:.0} % of the offered rate was done", done * 100.0));
}
