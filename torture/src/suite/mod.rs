//! The tests, and the function that runs each of them: it creates a database, runs the test, checks the record, and
//! prints a row.

mod arena;
mod backend_killer;
mod black_hole;
mod cancelled_futures;
mod claim_race;
mod clock_steps;
mod clocks;
mod crash_points;
mod cron;
mod database_crash;
mod deploys;
mod disk_full;
mod fleet;
mod fuzz;
mod hostile_payloads;
mod kill_storm;
mod line_never_returns;
mod live_job;
mod load;
mod lock_strength;
mod locked_row;
mod lost_notifications;
mod many_queues;
mod mixed_versions;
mod mutants;
mod new_worker;
mod not_run;
mod open_writer;
mod panics;
mod pgbouncer;
mod pinned_snapshot;
mod plans;
mod poison_pill;
mod poisoned_rows;
mod preloaded_clock;
mod publication;
mod recovery;
mod report;
mod run;
mod server_errors;
mod settings;
mod slots;
mod starvation;
mod statements;
mod steady;
mod uncommitted_bulk;
mod unknown_commit;
mod unknown_kinds;
mod upgrade;
mod vanishing_host;
mod zombies;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cluster::Postgres;
use torture::cluster::Cluster;

use crate::options::Options;
use arena::Arena;
use mutants::{MUTANTS, Mutant};
use report::Row;
use run::Run;

type Test = for<'a> fn(&'a Arena<'a>) -> Pin<Box<dyn Future<Output = Result<Run>> + Send + 'a>>;

/// The tests with their names, in the order of their importance.
const TESTS: &[(&str, Test)] = &[
    ("kill-storm", |arena| Box::pin(kill_storm::run(arena))),
    ("crash-points", |arena| Box::pin(crash_points::run(arena))),
    ("zombies", |arena| Box::pin(zombies::run(arena))),
    ("unknown-commit", |arena| Box::pin(unknown_commit::run(arena))),
    ("database-crash", |arena| Box::pin(database_crash::run(arena))),
    ("backend-killer", |arena| Box::pin(backend_killer::run(arena))),
    ("black-hole", |arena| Box::pin(black_hole::run(arena))),
    ("line-never-returns", |arena| Box::pin(line_never_returns::run(arena))),
    ("poison-pill", |arena| Box::pin(poison_pill::run(arena))),
    ("poisoned-rows", |arena| Box::pin(poisoned_rows::run(arena))),
    ("claim-race", |arena| Box::pin(claim_race::run(arena))),
    ("deploys", |arena| Box::pin(deploys::run(arena))),
    ("server-errors", |arena| Box::pin(server_errors::run(arena))),
    ("settings", |arena| Box::pin(settings::run(arena))),
    ("disk-full", |arena| Box::pin(disk_full::run(arena))),
    ("starvation", |arena| Box::pin(starvation::run(arena))),
    ("pinned-snapshot", |arena| Box::pin(pinned_snapshot::run(arena))),
    ("open-writer", |arena| Box::pin(open_writer::run(arena))),
    ("unknown-kinds", |arena| Box::pin(unknown_kinds::run(arena))),
    ("many-queues", |arena| Box::pin(many_queues::run(arena))),
    ("uncommitted-bulk", |arena| Box::pin(uncommitted_bulk::run(arena))),
    ("new-worker", |arena| Box::pin(new_worker::run(arena))),
    ("cron", |arena| Box::pin(cron::run(arena))),
    ("clocks", |arena| Box::pin(clocks::run(arena))),
    ("clock-steps", |arena| Box::pin(clock_steps::run(arena))),
    ("fuzz", |arena| Box::pin(fuzz::run(arena))),
    ("lost-notifications", |arena| Box::pin(lost_notifications::run(arena))),
    ("pgbouncer", |arena| Box::pin(pgbouncer::run(arena))),
    ("live-job", |arena| Box::pin(live_job::run(arena))),
    ("cancelled-futures", |arena| Box::pin(cancelled_futures::run(arena))),
    ("mixed-versions", |arena| Box::pin(mixed_versions::run(arena))),
    ("upgrade", |arena| Box::pin(upgrade::run(arena))),
    ("hostile-payloads", |arena| Box::pin(hostile_payloads::run(arena))),
    ("panics", |arena| Box::pin(panics::run(arena))),
    ("lock-strength", |arena| Box::pin(lock_strength::run(arena))),
    ("locked-row", |arena| Box::pin(locked_row::run(arena))),
    ("publication", |arena| Box::pin(publication::run(arena))),
    ("plans", |arena| Box::pin(plans::run(arena))),
];

/// A mutant's fault takes effect by chance. For example, a crash loses nothing if everything was just written to the
/// disk. So a mutant must be noticed in one of three runs.
const TRIES: u32 = 3;
/// The longest that one run of one test may take.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the selected tests. Returns whether all results are as expected.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let known: Vec<_> = TESTS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = options.tests.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no test {unknown:?}; there are {}", known.join(", "));
    }
    let asked = |name: &str| options.tests.is_empty() || options.tests.iter().any(|asked| asked == name);
    let seed = options.seed.unwrap_or_else(|| rand::random::<u32>().into());
    // The path is absolute, because the server's user has another working directory.
    let cluster = Cluster::start(&std::path::absolute(options.dir.join("pg"))?, &postgres()?)?;
    let mut well = true;
    report::head(seed);
    for (name, test) in TESTS.iter().filter(|(name, _)| asked(name)) {
        if options.mutants && !MUTANTS.iter().any(|mutant| mutant.tests.contains(name)) {
            bail!("{name} has no mutant: nothing shows what it is worth");
        }
        let mutants = MUTANTS.iter().filter(|mutant| options.mutants && mutant.tests.contains(name)).map(Some);
        let product = (!options.mutants).then_some(None);
        for mutant in product.into_iter().chain(mutants) {
            well &= repeat(&cluster, options, name, *test, mutant, seed).await?;
        }
    }
    Ok(well)
}

/// Runs a test once, or for as long as the options ask, each time with another seed. Returns whether all results are as
/// expected.
async fn repeat(
    cluster: &Cluster,
    options: &Options,
    name: &'static str,
    test: Test,
    mutant: Option<&'static Mutant>,
    mut seed: u64,
) -> Result<bool> {
    let until = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let (mut well, mut tries) = (true, 1);
    loop {
        let arena = Arena::open(cluster, options, name, seed, mutant).await?;
        let row = one(&arena, test).await;
        row.print();
        if row.is_unnoticed() && tries < TRIES {
            (tries, seed) = (tries + 1, seed + 1);
            continue;
        }
        tries = 1;
        well &= row.is_well();
        if row.is_well() && !options.keep {
            arena.clear().await?;
        }
        seed += 1;
        if until.is_none_or(|until| Instant::now() >= until) {
            return Ok(well);
        }
    }
}

async fn one(arena: &Arena<'_>, test: Test) -> Row {
    let begun = Instant::now();
    let run = match tokio::time::timeout(LIMIT, test(arena)).await {
        Ok(run) => run,
        Err(_) => Err(anyhow::anyhow!("still not done after {LIMIT:?}")),
    };
    Row::new(arena, run, begun.elapsed())
}

/// Returns the server that `JOBS_TEST_PG_BIN` selects, or one that is installed on this machine.
fn postgres() -> Result<Postgres> {
    match std::env::var_os("JOBS_TEST_PG_BIN") {
        Some(bin) => Ok(Postgres { bin: PathBuf::from(bin), libpq: None }),
        None => cluster::find(),
    }
}
