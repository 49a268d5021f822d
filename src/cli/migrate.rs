//! `migrate`: applies and reverts the schema, and prints its status, its SQL and the SQL of its roles.

use diesel_jobs_storage::migrations::{self, LiveJobs, Migration, POSTGRES_ROLES};
use diesel_jobs_storage::{Backend, Database};
use serde::Serialize;

use super::app::App;
use super::backend_args::BackendArgs;
use super::command_args::MigrateAction;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

/// A version of the schema, and whether the database has it.
#[derive(Serialize)]
struct Version {
    version: i32,
    name: Option<&'static str>,
    applied: bool,
}

pub(super) async fn migrate(app: &App<'_>, action: MigrateAction) -> Result<Exit, CliError> {
    match action {
        MigrateAction::Up => up(app).await,
        MigrateAction::Down { delete_jobs: true } => down(app, LiveJobs::Delete).await,
        MigrateAction::Down { delete_jobs: false } => down(app, LiveJobs::Keep).await,
        MigrateAction::Status => status(app).await,
        MigrateAction::Sql(backend) => sql(app, backend),
        MigrateAction::Roles => roles(app),
    }
}

async fn up(app: &App<'_>) -> Result<Exit, CliError> {
    let database = database::create(app.chosen()?, database::NO_HANDLERS).await?;
    let applied = database.migrator.up().await?;
    let versions: Vec<Version> = applied.iter().map(|m| Version::of(m, true)).collect();
    output::print(app.json, &versions, || {
        if applied.is_empty() {
            return "the schema is up to date\n".to_owned();
        }
        applied.iter().map(|m| format!("applied {}\n", label(m))).collect()
    })?;
    Ok(Exit::Fine)
}

async fn down(app: &App<'_>, live: LiveJobs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    if live == LiveJobs::Keep && !database.migrator.applied().await?.is_empty() {
        refuse_in_use(&database).await?;
    }
    let reverted = database.migrator.down(live).await?;
    let versions: Vec<Version> = reverted.iter().map(|m| Version::of(m, false)).collect();
    output::print(app.json, &versions, || {
        reverted.map_or_else(|| "nothing to revert\n".to_owned(), |m| format!("reverted {}\n", label(m)))
    })?;
    Ok(Exit::Fine)
}

/// Fails if jobs wait or run, or if a worker is alive. Otherwise `migrate down` could delete jobs by mistake.
async fn refuse_in_use(database: &Database) -> Result<(), CliError> {
    // If the schema is of another program version, its tables cannot be read. Its own SQL then refuses to delete jobs.
    let (Ok(stats), Ok(workers)) = (database.operator.stats().await, database.operator.workers().await) else {
        return Ok(());
    };
    let jobs = stats.unfinished();
    let alive = workers.iter().filter(|worker| worker.alive).count();
    if jobs.jobs == 0 && alive == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "{} (waiting or running) and {} need these tables; let them drain, stop them and try again, or pass --delete-jobs",
        output::depth(jobs, "job"),
        output::count(i64::try_from(alive).unwrap_or(i64::MAX), "live worker"),
    )))
}

async fn status(app: &App<'_>) -> Result<Exit, CliError> {
    let url = app.url()?;
    // A file that does not exist has no version, and is not created here.
    let (known, applied) = match database::missing_file(url) {
        Some(_) => (migrations::of(Backend::of(url)?), Vec::new()),
        None => {
            let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
            (database.migrator.known(), database.migrator.applied().await?)
        }
    };
    let mut versions: Vec<Version> = known.iter().map(|m| Version::of(m, applied.contains(&m.version))).collect();
    // A newer program has migrated this database. The ledger has its versions, but this program does not know their
    // names.
    let newer = applied.iter().filter(|version| known.iter().all(|m| m.version != **version));
    versions.extend(newer.map(|&version| Version { version, name: None, applied: true }));
    output::print(app.json, &versions, || {
        let mut table = Table::new(&[("VERSION", Align::Right), ("NAME", Align::Left), ("STATUS", Align::Left)]);
        for Version { version, name, applied } in &versions {
            let status = if *applied { "applied" } else { "missing; `migrate up` applies it" };
            let name = name.unwrap_or("(unknown: made by a newer program)");
            table.row([format!("{version:04}"), name.to_owned(), status.to_owned()]);
        }
        table.render()
    })?;
    Ok(Exit::Fine)
}

fn sql(app: &App<'_>, backend: BackendArgs) -> Result<Exit, CliError> {
    #[derive(Serialize)]
    struct Sql {
        version: i32,
        name: &'static str,
        up: &'static str,
        down: &'static str,
    }
    let known = migrations::of(backend.resolve(app.url_if_known())?);
    let all: Vec<Sql> =
        known.iter().map(|m| Sql { version: m.version, name: m.name, up: m.up, down: m.down }).collect();
    output::print(app.json, &all, || {
        known.iter().map(|m| format!("-- {}\n\n{}\n", label(m), m.up.trim_end())).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Fine)
}

fn roles(app: &App<'_>) -> Result<Exit, CliError> {
    output::print(app.json, &POSTGRES_ROLES, || POSTGRES_ROLES.to_owned())?;
    Ok(Exit::Fine)
}

impl Version {
    fn of(migration: &Migration, applied: bool) -> Self {
        Self { version: migration.version, name: Some(migration.name), applied }
    }
}

fn label(migration: &Migration) -> String {
    format!("{:04}_{}", migration.version, migration.name)
}
