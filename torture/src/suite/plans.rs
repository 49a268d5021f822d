//! Plans: workers claim and finish between a million jobs that are scheduled for later and a million that have ended, while
//! the server believes whatever statistics it is given. It writes down how it carries each statement out.
//!
//! Every claim and every finish touches a bounded number of pages; whoever looks for jobs sorts nothing, and reads no table from
//! one end to the other.

mod explained;

use std::fs;
use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Application, Deed, Shape, Work};

use super::arena::{Arena, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::statements::{CLAIM, FINISH};
use explained::Explained;

/// Jobs under each of the statistics, and thousands of jobs in their way, of either sort.
const SHORT: Size = Size { jobs: 60, faults: 100 };
const LONG: Size = Size { jobs: 2_000, faults: 1_000 };
/// Pages of a claim, and of each job that it brings beyond a few: each row is deleted from one table and its index, and
/// inserted into another.
const PAGES: u64 = 200;
const FEW: u64 = 8;
const PAGES_EACH: u64 = 20;
const SLOTS: u64 = 8;
/// What all statements have in them that look for waiting jobs.
const WAITING: &str = "from jobs.ready r";
/// Plans of fewer claims prove little.
const ENOUGH: usize = 20;
const REST: Duration = Duration::from_secs(60);
/// Between two jobs: each claim finds few.
const CALM: Duration = Duration::from_millis(15);

/// What the server believes: that all is empty, what was so before the tables grew; what is so; that there is nothing to
/// believe; and that the tables hold a page each.
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

pub(super) async fn run(arena: &Arena<'_>) -> Result<Run> {
    let size = arena.size(SHORT, LONG);
    let conn = arena.connect().await?;
    write_down_plans(&conn).await?;
    // Believed from here on: that all is empty.
    conn.batch_execute("analyze jobs.ready, jobs.running, jobs.finished").await?;
    fill(&conn, size.faults).await?;
    let begun = arena.cluster.log_length()?;
    let args = ["--concurrency", "8", "--poll", "200ms"];
    let fleet = Fleet::start(arena, arena.worker_url(), History::Quick, &args, 1).await?;
    let mut application = Application::new(arena.url());
    let mut numbers = 1..;
    for (belief, sql) in BELIEFS {
        fault(&conn, belief, None).await?;
        conn.batch_execute(sql).await?;
        for number in numbers.by_ref().take(size.jobs) {
            // So long that none is claimed ahead.
            let work = Work {
                priority: i16::try_from(number % 5)?,
                ..Work::new(number, Shape::ALL[usize::try_from(number % 4)?]).lasting(60)
            };
            application.perform(&Deed::Single(work)).await?;
            tokio::time::sleep(CALM).await;
        }
    }
    wait_for_those(&conn).await?;
    conn.batch_execute("delete from jobs.ready where kind = 'nothing'").await?;
    let drained = arena.at_rest(REST).await?;

    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::judge(arena, &application.ledger(), promise).await?;
    let plans = explained::plans(&arena.cluster.log_since(begun)?, arena.database());
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
            let file = keep(arena, claim)?;
            run.complaints.push(format!("a claim of {rows} jobs touched {pages} pages, and should {bar}: {file}"));
        }
    }
    for plan in plans.iter().filter(|plan| plan.query.contains(WAITING)) {
        if let Some(bad) = plan.bad_step() {
            let file = keep(arena, plan)?;
            run.complaints.push(format!("who looks for jobs should not need a {bad:?}: {file}"));
        }
    }
    // Their plans may differ: half of them are written on connections that are the application's to set.
    let bar = PAGES + PAGES_EACH * SLOTS;
    for finish in plans.iter().filter(|plan| plan.query.contains(FINISH)) {
        if finish.pages > bar {
            let file = keep(arena, finish)?;
            run.complaints.push(format!("a finish touched {} pages, and should {bar}: {file}", finish.pages));
        }
    }
    run.complaints.truncate(3);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Writes it beside the logs; answers where.
fn keep(arena: &Arena<'_>, explained: &Explained) -> Result<String> {
    let file = arena.logs().join("plan.txt");
    fs::write(&file, format!("{}\n{}\n", explained.query, explained.plan))?;
    Ok(file.display().to_string())
}

/// Has the server write down the plan of each statement of the sessions to come, with what it took.
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

/// So many thousand jobs for later, at the priorities of the others, and as many that have ended.
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

/// Waits until all jobs but those for later have ended, or for as long as that may take.
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
