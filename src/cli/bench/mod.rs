//! `bench`: a load test of the user's own database. It runs in a schema (SQLite: a directory) of its own.
//!
//! ```text
//! check other load ─ create the schema ─ measure waits ─ ramp ─┬─ enqueue one by one, more and more connections
//!                                                              ├─ enqueue in larger and larger batches
//!                                                              └─ run jobs with more and more processes
//! at any end: end the processes, drop the schema, then print the results
//! ```

mod advice;
pub(super) mod args;
mod bounds;
mod chart;
mod cpu;
mod fleet;
mod line;
mod load;
mod measure;
mod numbers;
mod others;
pub(super) mod process;
mod progress;
mod ramp;
mod report;
mod shape;
mod step;
mod traffic;

use std::path::Path;
use std::time::{Duration, Instant};

use diesel_jobs_core::WorkerBuilder;
use diesel_jobs_storage::bench::{LoadTestDatabase, PlaceError, Server, Waits};

use self::advice::Circumstances;
use self::args::BenchArgs;
use self::bounds::{BESIDE_WORKERS, Bounds};
use self::cpu::Cpu;
use self::fleet::Fleet;
use self::measure::Bench;
use self::progress::Progress;
use self::ramp::{Ramp, ramp};
use self::report::Report;
use super::app::App;
use super::exit::{CliError, Exit};
use super::output;
use super::run_args::RunArgs;
use super::settings;
use super::signals::Signals;

/// How long the round trip and the commit of one connection are measured.
const WAITS: Duration = Duration::from_millis(400);

/// The results, before they are printed.
struct Found {
    server: Server,
    waits: Waits,
    ramp: Ramp,
    /// What was left out, and why.
    note: Option<String>,
}

pub(super) async fn bench(app: &App<'_>, args: &BenchArgs) -> Result<Exit, CliError> {
    let wanted = RunArgs { slots: args.slots, ..RunArgs::default() };
    let slots = settings::run(&wanted, app.env)?.slots.unwrap_or(WorkerBuilder::DEFAULT_SLOTS);
    check_place(&args.svg)?;
    let mut signals = Signals::install()?;
    let database = diesel_jobs_storage::bench::load_test_database(app.url()?).await?;
    let fleet = Fleet::new(app.url()?, slots);

    let found = tokio::select! {
        biased;
        signal = signals.next() => Err(CliError::failed(format!("stopped by {signal} before the end"))),
        found = run(&*database, &fleet, args) => found,
    };
    let cleared = tokio::select! {
        biased;
        signal = signals.next() => Err(CliError::failed(format!("stopped by {signal}"))),
        cleared = clear(&*database, &fleet) => cleared,
    };
    if let Err(error) = &cleared {
        output::complain(&format!("error: {} is still there ({error}); the next `bench` drops it", database.place()));
    }
    tell(app, args, slots, &found?)?;
    Ok(if cleared.is_ok() { Exit::Fine } else { Exit::Failed })
}

/// Fails if the chart could not be written. It runs before the load, so that a wrong path does not cost a whole test.
fn check_place(svg: &Path) -> Result<(), CliError> {
    let directory = svg.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if svg.is_dir() || !directory.is_dir() {
        return Err(CliError::usage(format!("--svg {}: name a file in a directory that exists", svg.display())));
    }
    Ok(())
}

async fn run(database: &dyn LoadTestDatabase, fleet: &Fleet, args: &BenchArgs) -> Result<Found, CliError> {
    let deadline = Instant::now() + args.time;
    let progress = Progress::start(args.time);
    let server = database.server().await?;
    let (bounds, note) = Bounds::asked(args, processors()).within(&server)?;
    if !args.yes {
        progress.say("measuring the load of other sessions");
        others::refuse(&database.others(others::OBSERVATION).await?)?;
    }
    progress.say("preparing the database");
    database.prepare().await.map_err(|error| match error {
        PlaceError::Storage(error) => error.into(),
        refused => CliError::failed(refused.to_string()),
    })?;
    let waits = database.waits(WAITS).await?;
    let bench = Bench { database, fleet, cpu: Cpu::of(server.process), shape: args.shape() };
    let ramp = ramp(&bench, bounds, deadline, &progress).await?;
    Ok(Found { server, waits, ramp, note })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

async fn clear(database: &dyn LoadTestDatabase, fleet: &Fleet) -> Result<(), CliError> {
    fleet.stop().await;
    Ok(database.clear().await?)
}

/// Prints the results. It prints the figures before it writes the chart: they took a minute to measure, and must not be
/// lost if the disk is full.
fn tell(app: &App<'_>, args: &BenchArgs, slots: usize, found: &Found) -> Result<(), CliError> {
    let Found { server, waits, ramp, note } = found;
    let about = Circumstances {
        waits: *waits,
        one_writer: server.one_writer,
        processors: processors(),
        slots,
        not_the_workers: BESIDE_WORKERS,
        optimised: !cfg!(debug_assertions),
        shape: args.shape(),
    };
    let svg = std::path::absolute(&args.svg).unwrap_or_else(|_| args.svg.clone());
    let report = Report::new(server, ramp, &about, note.as_deref(), &svg);
    output::print(app.json, &report, || report.text())?;
    let chart =
        chart::draw(&server.name, ramp).map_err(|error| CliError::failed(format!("drawing the chart: {error}")))?;
    std::fs::write(&svg, chart).map_err(|error| CliError::failed(format!("writing {}: {error}", svg.display())))
}
