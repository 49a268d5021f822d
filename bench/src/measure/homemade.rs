//! `homemade`: queues as blog posts teach to write them, compared with diesel-jobs. Both run in as many processes. One
//! of their processes has one connection that takes one job at a time; one of ours is a worker with one slot. In the
//! middle of the run one process in eight is killed, and another one is started in its place.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::fleet::{Fleet, Tally};
use crate::homemade::{RECIPES, Recipe, arguments};
use crate::raw::seed;
use crate::report::{Line, Run};
use crate::server::Database;
use crate::worker_process::Role;

const PROCESSES: [usize; 4] = [1, 8, 32, 128];
const JOBS: u64 = 200_000;
/// More than a worker completes in the time.
const OUR_JOBS: u64 = 2_000_000;
const SECONDS: u64 = 10;
/// One in this many processes is killed.
const KILLED: usize = 8;
/// Connections that one of our workers opens at most: four for its statements, one for the heartbeat, one to listen.
const CONNECTIONS: usize = 6;
/// Connections for everything else: the program itself, those of killed processes, and those that the server reserves.
const OTHERS: usize = 16;
/// How long the start of all workers may take.
const REGISTERED: Duration = Duration::from_secs(60);
/// How long they work before the measurement. Each of many registered workers still opens connections then.
const WARM_UP: Duration = Duration::from_secs(5);
/// How long the rescue of the jobs of killed workers may take. The lease is 30 s. Jobs that wait longer are stuck.
const RESCUED: Duration = Duration::from_secs(90);
/// The time between two looks at the tables.
const LOOK: Duration = Duration::from_millis(100);
/// PostgreSQL's backends report their statistics within a second.
const COUNTED: Duration = Duration::from_millis(1500);

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    let time = bench.options.time(SECONDS);
    for processes in PROCESSES {
        let number = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        let line = |name: String, jobs: u64| Line {
            n: Some(jobs),
            seconds: Some(time),
            processes: Some(processes),
            ..Line::new("homemade", name, "jobs/s")
        };
        let name = format!("diesel-jobs, {number}");
        if bench.options.wants(&name) && has_room(bench, &name, processes * CONNECTIONS).await? {
            let jobs = bench.options.jobs(OUR_JOBS);
            match bench.repeat(&name, async || ours(bench, processes, jobs, time).await).await {
                Ok(runs) => bench.report(&mut lines, line(name, jobs).with(&runs))?,
                // On a small machine one of 128 workers may get no connection in time, and end. The hand-written queues
                // are measured all the same.
                Err(error) if processes == PROCESSES[3] => bench.note(&format!("{name}: left out: {error:#}")),
                Err(error) => return Err(error),
            }
        }
        for recipe in &RECIPES {
            let name = format!("{}, {number}", recipe.name);
            if bench.options.wants(&name) && has_room(bench, &name, processes).await? {
                let jobs = bench.options.jobs(JOBS);
                let runs = bench.repeat(&name, async || theirs(bench, recipe, processes, jobs, time).await).await?;
                bench.report(&mut lines, line(name, jobs).with(&runs))?;
            }
        }
    }
    bench.finish("homemade: queues as blog posts teach to write them", &lines);
    Ok(())
}

/// Whether the server allows this many connections and a few more.
async fn has_room(bench: &Bench, name: &str, connections: usize) -> Result<bool> {
    let (allowed, needed) = (bench.server.max_connections().await?, connections + OTHERS);
    if allowed < needed {
        bench.note(&format!("{name}: left out; max_connections must be {needed}, it is {allowed}"));
    }
    Ok(allowed >= needed)
}

async fn ours(bench: &Bench, processes: usize, jobs: u64, seconds: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    seed::ready(&database.client, "noop_told", jobs, 0, "0").await?;
    database.settle().await?;
    let role = Role { slots: Some(1), ..Role::default() };
    let mut fleet = Fleet::connect(&database.url, processes, &role).await?;
    fleet.start().await?;
    let begun = Instant::now();
    // A worker registers after its start, and then begins to claim.
    while database.count("select count(*) from jobs.worker").await? < processes as i64 {
        ensure!(begun.elapsed() < REGISTERED, "the workers have not registered in time");
        fleet.record_for(LOOK).await?;
    }
    fleet.record_for(WARM_UP).await?;
    let (run, killed_at) = run(bench, &database, &mut fleet, jobs, seconds).await?;
    while held_by_killed(&database, &fleet).await? > 0 && killed_at.elapsed() < RESCUED {
        fleet.record_for(LOOK).await?;
    }
    let run = run.with("rescued_after_s", killed_at.elapsed().as_secs_f64());
    let tally = fleet.tally().await?;
    // The workers have drained, so a job in this state belongs to a killed one.
    let run = told(run, &tally).with("stuck", database.count("select count(*) from jobs.running").await?);
    let rescued = database.count("select count(distinct job_id) from jobs.job_error where kind = 'crash'").await?;
    let run = bloat(&database, run.with("rescued", rescued), &tally, "jobs").await?;
    database.close().await?;
    Ok(run)
}

async fn theirs(bench: &Bench, recipe: &Recipe, processes: usize, jobs: u64, seconds: u64) -> Result<Run> {
    let database = bench.server.create().await?;
    database.client.batch_execute(recipe.table).await?;
    let fill = format!("insert into todo (id, args) select i, '{}' from generate_series(1, {jobs}) i", seed::ARGS);
    database.client.batch_execute(&fill).await?;
    database.settle().await?;
    let mut fleet = Fleet::connect_with(&database.url, processes, arguments(recipe)).await?;
    fleet.start().await?;
    let (run, _) = run(bench, &database, &mut fleet, jobs, seconds).await?;
    let tally = fleet.tally().await?;
    // No job runs any more, so a job in this state is stuck.
    let stuck = match recipe.table.contains("status") {
        true => database.count("select count(*) from todo where status = 'running'").await?,
        false => 0,
    };
    let run = bloat(&database, told(run, &tally).with("stuck", stuck), &tally, "public").await?;
    database.close().await?;
    Ok(run)
}

/// Lets the started processes work for this time, and replaces some in the middle. Returns the result and when they
/// were killed.
async fn run(
    bench: &Bench,
    database: &Database<'_>,
    fleet: &mut Fleet,
    jobs: u64,
    seconds: u64,
) -> Result<(Run, Instant)> {
    let (time, killed) = (Duration::from_secs(seconds), fleet.pids().len() / KILLED);
    let (before, begun) = (fleet.completed(), Instant::now());
    fleet.record_for(time / 2).await?;
    let connections = database
        .count(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                 and backend_type = 'client backend'",
        )
        .await?;
    let killed_at = Instant::now();
    fleet.replace(killed).await?;
    fleet.record_for(time.saturating_sub(begun.elapsed())).await?;
    let (ended, took) = (fleet.completed(), begun.elapsed());
    if ended >= jobs {
        bench.note("all jobs ended before the time was over; use a larger --n");
    }
    let run = Run::new((ended - before) as f64 / took.as_secs_f64());
    Ok((run.with("killed", killed).with("connections", connections), killed_at))
}

/// Returns how many jobs belong to workers that do not run any more.
async fn held_by_killed(database: &Database<'_>, fleet: &Fleet) -> Result<i64> {
    let alive: Vec<String> = fleet.pids().iter().map(u32::to_string).collect();
    let alive = alive.join(",");
    database
        .count(&format!(
            "select count(*) from jobs.running where worker not in (select id from jobs.worker where pid in ({alive}))"
        ))
        .await
}

/// Adds what the processes told.
fn told(run: Run, tally: &Tally) -> Run {
    run.with("run_twice", tally.repeated()).with("conflicts", tally.conflicts())
}

/// Adds the dead rows of the schema's tables, per ended job.
async fn bloat(database: &Database<'_>, run: Run, tally: &Tally, schema: &str) -> Result<Run> {
    tokio::time::sleep(COUNTED).await;
    let dead =
        format!("select coalesce(sum(n_dead_tup), 0)::int8 from pg_stat_user_tables where schemaname = '{schema}'");
    let dead = database.count(&dead).await? as f64;
    Ok(run.with("dead_rows_per_job", dead / tally.completed.max(1) as f64))
}
