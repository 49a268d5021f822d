//! Plans: workers claim and finish under different planner statistics. In the long form, a million scheduled jobs and a
//! million finished jobs are stored. The server logs the plan of each statement.
//!
//! Every claim and every finish touches a bounded number of pages. Statements that search for jobs neither sort nor
//! read a whole table.

mod explained;

use std::fs;
use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::statements::{CLAIM, FINISH};
use explained::Explained;

/// The number of jobs under each of the statistics, and the number of other jobs of either sort, in thousands.
const SHORT: Size = Size { jobs: 60, faults: 100 };
const LONG: Size = Size { jobs: 2_000, faults: 1_000 };
/// The limits for the pages of a claim, and for each job beyond the first few. Each row is deleted from one table and
/// its index, and inserted into another.
const PAGES: u64 = 200;
const FEW: u64 = 8;
const PAGES_EACH: u64 = 20;
const SLOTS: u64 = 8;
/// All statements that search for waiting jobs contain this.
const WAITING: &str = "from jobs.ready r";
/// The plans of fewer claims would prove little.
const ENOUGH: usize = 20;
const REST: Duration = Duration::from_secs(60);
/// The pause between two jobs. It makes each claim find few.
const CALM: Duration = Duration::from_millis(15);

/// The planner statistics of each part. First: the tables are empty, as they were before they grew. Then: correct
/// statistics. Then: no statistics. Then: each table has one page.
const BELIEFS: [(&str, &str); 4] = [
    ("nothing has changed", "select 1"),
    ("what is so", "analyze jobs.ready, jobs.running, jobs.finished"),
    (
        "nothing",
        "delete from pg_statistic where starelid in ('jobs.ready'::regclass, 'jobs.running'::regclass, 'jobs.finished'::regclass)",
    ),
    (
        "tables of a page",
        "update pg_class set reltuples = 10, relpages = 1 where relnamespace = 'jobs'::regnamespace and relkind = 'r'",
    ),
];

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    write_down_plans(&conn).await?;
    // From here on the statistics show empty tables.
    conn.batch_execute("analyze jobs.ready, jobs.running, jobs.finished").await?;
    fill(&conn, size.faults).await?;
    let begun = fixture.cluster.log_length()?;
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, 1).await?;
    let mut application = Application::new(fixture.url());
    let mut numbers = 1..;
    for (belief, sql) in BELIEFS {
        fault(&conn, belief, None).await?;
        conn.batch_execute(sql).await?;
        for number in numbers.by_ref().take(size.jobs) {
            // A job takes so long that none is prefetched.
            let work = Work {
                priority: i16::try_from(number % 5)?,
                ..Work::new(number, Shape::ALL[usize::try_from(number % 4)?]).lasting(60)
            };
            application.perform(&EnqueueCall::Single(work)).await?;
            tokio::time::sleep(CALM).await;
        }
    }
    wait_for_those(&conn).await?;
    conn.batch_execute("delete from jobs.ready where kind = 'nothing'").await?;
    let drained = fixture.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &application.ledger(), promise).await?;
    let plans = explained::plans(&fixture.cluster.log_since(begun)?, fixture.database());
    let claims: Vec<&Explained> = plans.iter().filter(|plan| plan.query.contains(CLAIM)).collect();
    let most = claims.iter().map(|claim| claim.pages).max().unwrap_or_default();
    run.load =
        format!("{} among {} thousand; {} claims of {most} pages at most", run.load, 2 * size.faults, claims.len());
    run.faults = BELIEFS.len();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(claims.len() >= ENOUGH, || format!("the server wrote down {} claims: little was tested", claims.len()));
    for claim in &claims {
        let bar = PAGES + PAGES_EACH * claim.rows.saturating_sub(FEW);
        let Explained { rows, pages, .. } = claim;
        if *pages > bar {
            let file = keep(fixture, claim)?;
            run.complaints.push(format!("a claim of {rows} jobs touched {pages} pages, and should {bar}: {file}"));
        }
    }
    for plan in plans.iter().filter(|plan| plan.query.contains(WAITING)) {
        if let Some(bad) = plan.bad_step() {
            let file = keep(fixture, plan)?;
            run.complaints.push(format!("who looks for jobs should not need a {bad:?}: {file}"));
        }
    }
    // The plans of finishes may differ, because half of the finishes use connections with the application's settings.
    let bar = PAGES + PAGES_EACH * SLOTS;
    for finish in plans.iter().filter(|plan| plan.query.contains(FINISH)) {
        if finish.pages > bar {
            let file = keep(fixture, finish)?;
            run.complaints.push(format!("a finish touched {} pages, and should {bar}: {file}", finish.pages));
        }
    }
    run.complaints.truncate(3);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Writes the plan to a file in the directory of the logs. Returns its path.
fn keep(fixture: &Fixture<'_>, explained: &Explained) -> Result<String> {
    let file = fixture.logs().join("plan.txt");
    fs::write(&file, format!("{}\n{}\n", explained.query, explained.plan))?;
    Ok(file.display().to_string())
}

/// Makes the server log the plan of each statement of later sessions, with row counts and buffers.
async fn write_down_plans(conn: &Client) -> Result<()> {
    for setting in [
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_analyze = on",
        "auto_explain.log_buffers = on",
        "auto_explain.log_timing = off",
    ] {
        let sql = format!(
            "do $$ begin execute format('alter database %I set {}', current_database()); end $$",
            setting.replace('\'', "''")
        );
        conn.batch_execute(&sql).await?;
    }
    Ok(())
}

/// Inserts this many thousand jobs for later, at the priorities of the others, and as many that have ended.
async fn fill(conn: &Client, thousands: usize) -> Result<()> {
    conn.batch_execute(&format!(
        "insert into jobs.ready (kind, args, priority, run_at)
         select 'nothing', '{{}}', n % 5, now() + interval '1 day' + n * interval '1 second' from generate_series(1, {thousands} * 1000) n;
         insert into jobs.finished (id, run_at, enqueued_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, kind, queue, args)
         select nextval('jobs.job_id'), now(), now(), now() + interval '1 day', 1, 1, 0, 1, 25, 0, 'nothing', 'default', '{{}}' from generate_series(1, {thousands} * 1000)"
    ))
    .await?;
    Ok(())
}

/// Waits until all jobs except those for later have ended, but no longer than `REST`.
async fn wait_for_those(conn: &Client) -> Result<()> {
    let open = "select (select count(*) from jobs.ready where kind <> 'nothing') + (select count(*) from jobs.running)";
    let ended = async {
        while number(conn, open).await? > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    };
    tokio::time::timeout(REST, ended).await.unwrap_or(Ok(()))
}
