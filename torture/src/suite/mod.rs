//! The tests, and the function that runs each of them: it creates a database, runs the test, checks the record, and
//! prints a row.

mod at_rest;
mod backend_killer;
mod batches;
mod black_hole;
mod bodies;
mod cancelled_futures;
mod claim_race;
mod clock_steps;
mod clocks;
mod crash_points;
mod cron;
mod database_crash;
mod deploys;
mod disk_full;
mod failover;
mod fair;
mod fixture;
mod fleet;
mod fuzz;
mod hostile_payloads;
mod hurried_deploys;
mod kill_storm;
mod limits;
mod line_never_returns;
mod live_job;
mod load;
mod lock_strength;
mod locked_row;
mod lost_notifications;
mod many_queues;
mod migration;
mod mixed_versions;
mod mutants;
mod new_worker;
mod not_run;
mod on_full;
mod open_writer;
mod panics;
mod pgbouncer;
mod pinned_snapshot;
mod plans;
mod poison_pill;
mod poisoned_rows;
mod preloaded_clock;
mod publication;
mod rates;
mod recovery;
mod report;
mod run;
mod sequences;
mod server_errors;
mod settings;
mod slots;
mod starvation;
mod statements;
mod steady;
mod suspended;
mod uncommitted_bulk;
mod unique;
mod unknown_commit;
mod unknown_kinds;
mod upgrade;
mod vanishing_host;
mod watch;
mod zombies;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cluster::Postgres;
use torture::cluster::Cluster;

use crate::options::Options;
use fixture::Fixture;
use mutants::{Mutant, mutants};
use report::Row;
use run::Run;

type Test = for<'a> fn(&'a Fixture<'a>) -> Pin<Box<dyn Future<Output = Result<Run>> + Send + 'a>>;

/// The tests with their names, in the order of their importance.
const TESTS: &[(&str, Test)] = &[
    ("kill-storm", |fixture| Box::pin(kill_storm::run(fixture))),
    ("crash-points", |fixture| Box::pin(crash_points::run(fixture))),
    ("limits", |fixture| Box::pin(limits::run(fixture))),
    ("on-full", |fixture| Box::pin(on_full::run(fixture))),
    ("fair", |fixture| Box::pin(fair::run(fixture))),
    ("rates", |fixture| Box::pin(rates::run(fixture))),
    ("sequences", |fixture| Box::pin(sequences::run(fixture))),
    ("unique", |fixture| Box::pin(unique::run(fixture))),
    ("batches", |fixture| Box::pin(batches::run(fixture))),
    ("zombies", |fixture| Box::pin(zombies::run(fixture))),
    ("unknown-commit", |fixture| Box::pin(unknown_commit::run(fixture))),
    ("database-crash", |fixture| Box::pin(database_crash::run(fixture))),
    ("failover", |fixture| Box::pin(failover::run(fixture))),
    ("backend-killer", |fixture| Box::pin(backend_killer::run(fixture))),
    ("black-hole", |fixture| Box::pin(black_hole::run(fixture))),
    ("line-never-returns", |fixture| Box::pin(line_never_returns::run(fixture))),
    ("poison-pill", |fixture| Box::pin(poison_pill::run(fixture))),
    ("poisoned-rows", |fixture| Box::pin(poisoned_rows::run(fixture))),
    ("claim-race", |fixture| Box::pin(claim_race::run(fixture))),
    ("deploys", |fixture| Box::pin(deploys::run(fixture))),
    ("hurried-deploys", |fixture| Box::pin(hurried_deploys::run(fixture))),
    ("server-errors", |fixture| Box::pin(server_errors::run(fixture))),
    ("settings", |fixture| Box::pin(settings::run(fixture))),
    ("disk-full", |fixture| Box::pin(disk_full::run(fixture))),
    ("starvation", |fixture| Box::pin(starvation::run(fixture))),
    ("pinned-snapshot", |fixture| Box::pin(pinned_snapshot::run(fixture))),
    ("open-writer", |fixture| Box::pin(open_writer::run(fixture))),
    ("unknown-kinds", |fixture| Box::pin(unknown_kinds::run(fixture))),
    ("many-queues", |fixture| Box::pin(many_queues::run(fixture))),
    ("uncommitted-bulk", |fixture| Box::pin(uncommitted_bulk::run(fixture))),
    ("new-worker", |fixture| Box::pin(new_worker::run(fixture))),
    ("cron", |fixture| Box::pin(cron::run(fixture))),
    ("clocks", |fixture| Box::pin(clocks::run(fixture))),
    ("clock-steps", |fixture| Box::pin(clock_steps::run(fixture))),
    ("fuzz", |fixture| Box::pin(fuzz::run(fixture))),
    ("lost-notifications", |fixture| Box::pin(lost_notifications::run(fixture))),
    ("pgbouncer", |fixture| Box::pin(pgbouncer::run(fixture))),
    ("live-job", |fixture| Box::pin(live_job::run(fixture))),
    ("cancelled-futures", |fixture| Box::pin(cancelled_futures::run(fixture))),
    ("mixed-versions", |fixture| Box::pin(mixed_versions::run(fixture))),
    ("upgrade", |fixture| Box::pin(upgrade::run(fixture))),
    ("migration", |fixture| Box::pin(migration::run(fixture))),
    ("hostile-payloads", |fixture| Box::pin(hostile_payloads::run(fixture))),
    ("panics", |fixture| Box::pin(panics::run(fixture))),
    ("lock-strength", |fixture| Box::pin(lock_strength::run(fixture))),
    ("locked-row", |fixture| Box::pin(locked_row::run(fixture))),
    ("publication", |fixture| Box::pin(publication::run(fixture))),
    ("plans", |fixture| Box::pin(plans::run(fixture))),
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
        for mutant in objects(options, name)? {
            well &= repeat(&cluster, options, name, *test, mutant, seed).await?;
        }
    }
    Ok(well)
}

/// Returns what the test runs on: the product, or its mutants.
fn objects(options: &Options, test: &str) -> Result<Vec<Option<&'static Mutant>>> {
    let mutants: Vec<_> = mutants().filter(|mutant| mutant.tests.contains(&test)).map(Some).collect();
    match &options.mutant {
        Some(asked) => {
            let found = mutants.iter().flatten().find(|mutant| mutant.name == asked);
            let named = mutants.iter().flatten().map(|mutant| mutant.name).collect::<Vec<_>>().join(", ");
            Ok(vec![Some(found.with_context(|| format!("{test} has no mutant {asked:?}; it has {named}"))?)])
        }
        None if options.mutants && mutants.is_empty() => bail!("{test} has no mutant: nothing shows what it is worth"),
        None if options.mutants => Ok(mutants),
        None => Ok(vec![None]),
    }
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
        let fixture = Fixture::open(cluster, options, name, seed, mutant).await?;
        let row = one(&fixture, test).await;
        row.print();
        if row.is_unnoticed() && tries < TRIES {
            (tries, seed) = (tries + 1, seed + 1);
            continue;
        }
        tries = 1;
        well &= row.is_well();
        if row.is_well() && !options.keep {
            fixture.clear().await?;
        }
        seed += 1;
        if until.is_none_or(|until| Instant::now() >= until) {
            return Ok(well);
        }
    }
}

async fn one(fixture: &Fixture<'_>, test: Test) -> Row {
    let begun = Instant::now();
    let run = tokio::select! {
        run = test(fixture) => run,
        // The rest of the run would say no more of the mutant.
        complaint = fixture.noticed() => Ok(Run::until(complaint)),
        () = tokio::time::sleep(LIMIT) => Err(anyhow::anyhow!("still not done after {LIMIT:?}")),
    };
    Row::new(fixture, run, begun.elapsed())
}

/// Returns the server that `JOBS_TEST_PG_BIN` selects, or one that is installed on this machine.
fn postgres() -> Result<Postgres> {
    match std::env::var_os("JOBS_TEST_PG_BIN") {
        Some(bin) => Ok(Postgres { bin: PathBuf::from(bin), libpq: None }),
        None => cluster::find(),
    }
}
