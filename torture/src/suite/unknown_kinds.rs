//! Unknown kinds: very many due jobs of a kind that no worker knows, at a higher, the same and a lower priority. Then a
//! worker starts while they wait. Then four workers of the older version run together with one of the newer version.
//!
//! Known jobs start promptly, and idle workers cause almost no load on the server.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use tokio::time::{MissedTickBehavior, interval};
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued, fault};
use torture::process::Signal;
use torture::workload::versions::Novel;
use torture::workload::{Application, Shape, Work};

use super::fixture::{Fixture, History, START, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::steady::{expect_prompt, server_load, steady, waits};
use crate::role::BEHIND;

/// The number of known jobs in each phase, and the number of unknown ones at each priority, in thousands.
const SHORT: Size = Size { jobs: 300, faults: 20 };
const LONG: Size = Size { jobs: 6_000, faults: 1_000 };
const RATE: f64 = 100.0;
const OLDER: usize = 4;
const ARGS: [&str; 4] = ["--slots", "8", "--poll-interval", "200ms"];
const NOVEL: i64 = 1_000_000;
/// The number of jobs right after the unknown ones that are not measured. Claims read the entries of the unknown ones
/// until their scan floors have passed them.
const FOLLOW: i64 = 50;
const SETTLING: i64 = 2_000_000;
const PROMPT: Duration = Duration::from_millis(20);
/// A worker that has just started gets this time to set its scan floors.
const FIRST: Duration = Duration::from_secs(1);
/// The part of a processor that idle workers may cost the server, how long that is measured, and how long after the
/// workers became idle. The server publishes its counts of changes up to ten seconds late, and after that one more
/// rescan follows.
const IDLE: f64 = 0.05;
const WATCHED: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(15);
const REST: Duration = Duration::from_secs(60);
const UNKNOWN: &str = "kind = 'of_the_next_program'";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let known = i64::try_from(size.jobs)?;
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &ARGS, 1).await?;
    let conn = fixture.connect().await?;
    let mut application = Application::new(fixture.url());
    steady(&mut application, 0..known, RATE).await?;

    // They are inserted while the worker runs.
    fault(&conn, "jobs that nobody knows", None).await?;
    for _ in 0..size.faults {
        conn.batch_execute(
            "insert into jobs.ready (kind, priority, args)
             select 'of_the_next_program', priority, '{}' from generate_series(1, 1000), unnest('{7, 0, -7}'::smallint[]) priority",
        )
        .await?;
    }
    steady(&mut application, SETTLING..SETTLING + FOLLOW, RATE).await?;
    steady(&mut application, known..2 * known, RATE).await?;

    // There is nothing to do now except jobs of the unknown kind.
    let load = server_load(fixture, SETTLE, WATCHED).await?;

    // Another worker takes its place, and starts while the unknown jobs wait.
    let mut first = fleet.replace(0)?;
    first.signal(Signal::TERM)?;
    fleet.at_work().await?;
    tokio::time::sleep(FIRST).await;
    steady(&mut application, 2 * known..3 * known, RATE).await?;

    // Four older workers are added. They do not know the kind of the next jobs.
    let mut older = Vec::new();
    for _ in 0..OLDER {
        older.push(fixture.worker_with(&fixture.worker_url(), History::Quick, &ARGS, &[(BEHIND, "1")])?);
    }
    for worker in &mut older {
        worker.said("worker started", START).await?;
    }
    let novel_jobs = novel(fixture, NOVEL, known).await?;
    let left = "select count(*) from jobs.job where finished_at is null and not ".to_owned() + UNKNOWN;
    let begun = tokio::time::Instant::now();
    while number(&conn, &left).await? > 0 && begun.elapsed() < fixture.patience(REST) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (open, touched) = (
        number(&conn, &left).await?,
        number(&conn, &format!("select count(*) from jobs.job where {UNKNOWN} and (state, lease) <> ('available', 0)"))
            .await?,
    );
    for worker in &mut older {
        worker.signal(Signal::TERM)?;
        worker.ended(START).await?;
    }
    fleet.stop().await?;
    first.ended(START).await?;

    let mut ledger = application.ledger();
    ledger.extend(novel_jobs);
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{} at {RATE}/s beside 3 x {},000 unknown", run.load, size.faults);
    run.faults = 3;
    run.expect(open == 0, || format!("{open} known jobs were not done after {REST:?}"));
    run.expect(touched == 0, || format!("{touched} jobs of an unknown kind were touched"));
    run.expect_in_time(load <= IDLE, || {
        format!("an idle worker takes {:.1} % of a processor of the server", load * 100.0)
    });
    let phases = [
        ("behind unknown ones", known..2 * known),
        ("of a worker that started behind unknown ones", 2 * known..3 * known),
        ("that only one of five workers knows", NOVEL..NOVEL + known),
    ];
    for (what, numbers) in phases {
        let seen = waits(&run.record, numbers);
        run.recovery.extend(&seen);
        expect_prompt(&mut run, what, &seen, PROMPT);
    }
    Ok(run)
}

/// Enqueues jobs of the newer version's kind at the steady rate.
async fn novel(fixture: &Fixture<'_>, first: i64, jobs: i64) -> Result<Vec<Enqueued>> {
    let mut conn = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut ticks = interval(Duration::from_secs_f64(1.0 / RATE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut ledger = Vec::new();
    for number in first..first + jobs {
        ticks.tick().await;
        let work = Work::new(number, Shape::Async);
        let id = Novel { work: work.clone() }.enqueue(&mut conn).await?;
        ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
    }
    Ok(ledger)
}
