//! The command line of the bundled worker. [`diesel_jobs::worker!`](crate::worker!) generates a `main` that calls it. A
//! program with its own `main` calls [`main`] or [`main_with`].
//!
//! `worker` alone runs jobs. `worker help` lists the other commands. All accept `--database-url` and `--json`.
//!
//! Variables that are not set are read from the nearest file `.env`, in the working directory or above. This changes
//! the environment, so a program with its own `main` must call [`main`] or [`main_with`] before it starts threads.
//!
//! | exit code | meaning |
//! |--:|---|
//! | 0 | fine; also a worker that was asked to stop and did, or that found no due job with `--until-empty` |
//! | 1 | the command failed, was interrupted, or was refused for a job; `doctor` found an error |
//! | 2 | an option, an environment variable or the database URL is not understood, or the program cannot run its jobs, such as without a state that they take |
//! | 3 | the database cannot be reached |
//! | 4 | the schema is missing, older or newer than this program |
//! | 5 | `run --until-empty` has ended, and it has discarded a job |
//! | 6 | the server refuses the credentials; a running worker ends after five minutes of this |

mod act;
mod actor_args;
mod app;
mod args;
mod attempts;
mod audit;
mod backend_args;
#[cfg(feature = "bench")]
mod bench;
mod cancel_backlog;
mod command;
mod command_args;
mod command_line;
mod completions;
mod confirm;
#[cfg(feature = "dashboard")]
mod dashboard;
mod database;
mod doctor;
mod dotenv;
mod duration;
mod enqueue;
mod environment;
mod exit;
mod failures;
mod filter_args;
mod freeze;
mod global_args;
mod help;
mod kinds;
mod limits;
mod list;
#[cfg_attr(not(feature = "listen"), path = "listen/missing.rs")]
mod listen;
mod logging;
mod migrate;
mod migrations;
mod operations;
mod output;
mod parse;
mod pauses;
mod place;
mod probe;
mod progress;
mod queue_commands;
mod queues;
mod redact;
mod release;
mod retention;
mod run;
mod run_args;
mod schedules;
mod sequences;
mod settings;
mod show;
mod signals;
mod standard_error;
mod stats;
#[cfg(unix)]
mod systemd;
mod tail;
#[cfg(feature = "top")]
mod top;
mod transfer;
mod unknown_queues;
mod unknown_variables;
mod url;
mod waits;
mod why;
mod wording;
mod worker;
mod workers;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use diesel_jobs_core::WorkerBuilder;
use diesel_jobs_core::storage::Action;
use diesel_jobs_storage::Backend;

use self::app::{App, BoxError, Setup};
use self::args::Cli;
use self::command::Command;
use self::command_args::{EnvironmentAction, MigrateAction};
use self::exit::{CliError, Exit};
use self::kinds::KindsAction;
use self::limits::LimitsAction;
use self::queue_commands::args::QueuesAction;
use self::retention::RetentionAction;
use self::schedules::args::SchedulesAction;
use self::sequences::SequencesAction;
use self::settings::Environment;
use self::workers::WorkersAction;

/// Runs the whole program: reads the command line and the environment, runs the command, and returns the exit code.
///
/// It does not know the program's version, which [`diesel_jobs::worker!`](crate::worker!) passes on. Set it with
/// [`WorkerBuilder::program_version`], `--program-version` or `JOBS_VERSION`.
pub fn main() -> ExitCode {
    start(None, None)
}

/// Like [`main`], for a worker that needs more than its registered jobs. `setup` sets the state, the queues and the
/// limits of the builder. Options and environment variables override what it sets. Only `run` and `doctor` call it.
///
/// ```no_run
/// # #[derive(Clone)] struct Mailer;
/// async fn setup(worker: diesel_jobs::WorkerBuilder) -> Result<diesel_jobs::WorkerBuilder, std::io::Error> {
///     Ok(worker.state(Mailer).program_version(env!("CARGO_PKG_VERSION")))
/// }
///
/// fn main() -> std::process::ExitCode {
///     diesel_jobs::cli::main_with(setup)
/// }
/// ```
pub fn main_with<S, E>(setup: S) -> ExitCode
where
    S: AsyncFnOnce(WorkerBuilder) -> Result<WorkerBuilder, E> + 'static,
    E: Into<BoxError>,
{
    start(None, Some(Box::new(|builder| Box::pin(async move { setup(builder).await.map_err(Into::into) }))))
}

/// [`main_with`] for a program whose version is known before the setup is called. For [`diesel_jobs::worker!`].
///
/// [`diesel_jobs::worker!`]: crate::worker!
#[doc(hidden)]
pub fn main_of_version<S, E>(version: &'static str, setup: S) -> ExitCode
where
    S: AsyncFnOnce(WorkerBuilder) -> Result<WorkerBuilder, E> + 'static,
    E: Into<BoxError>,
{
    start(
        Some(version),
        Some(Box::new(move |builder| {
            Box::pin(async move { setup(builder.program_version(version)).await.map_err(Into::into) })
        })),
    )
}

fn start(version: Option<&str>, setup: Option<Setup>) -> ExitCode {
    let _flush = standard_error::FlushOnDrop;
    let env: Environment<'_> = &|name| std::env::var_os(name);
    let cli = match command_line::read() {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            return command_line::say_version(version, env)
                .map_or_else(|error| fail(&format!("error: {error}"), Exit::Failed), ExitCode::from);
        }
        Err(error) => error.exit(),
    };
    let chosen = dotenv::load(&[settings::DATABASE_URL, settings::DATABASE_URL_FILE])
        .and_then(|file| Ok((url::choose(&cli.global, env, file.as_ref(), Backend::built_in())?, file)));
    let (chosen, file) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => return fail(&format!("error: {error}"), error.exit),
    };
    if cli.command.as_ref().is_none_or(Command::runs_long) {
        // The `main` of `worker!`, which knows the version, has installed no hook for panics before.
        standard_error::queue_lines(version.is_some());
    }
    let app = App { chosen, env_file: file.map(|file| file.path), json: cli.global.json, env, setup };
    let url = app.url_if_known().unwrap_or_default().to_owned();
    match dispatch(cli, app) {
        Ok(exit) => exit.into(),
        Err(error) => fail(&database::explain(&error, &url), error.exit),
    }
}

/// Logs like a `worker run` whose output goes to a file. For programs that measure the worker.
#[doc(hidden)]
pub fn log_as_worker() {
    standard_error::queue_lines(false);
    // This cannot fail: `info` is a valid level.
    let _ = logging::install(logging::LogFormat::Pretty, false, None, "info");
}

fn fail(line: &str, exit: Exit) -> ExitCode {
    output::complain(line);
    exit.into()
}

fn dispatch(cli: Cli, app: App<'_>) -> Result<Exit, CliError> {
    let command = cli.command.unwrap_or(Command::Run(cli.run));
    // `run` logs what the worker does, and `migrate` what takes long. The other commands print their answer, and log
    // only warnings and errors.
    let level = match command {
        Command::Run(_) | Command::Migrate { .. } => "info",
        // It draws on the terminal to which lines are logged, and shows problems itself.
        Command::Top { .. } => "off",
        _ => "warn",
    };
    let format = settings::log_format(&cli.global, app.env)?;
    logging::install(format, io::stderr().is_terminal(), settings::log_directives(app.env)?.as_deref(), level)?;
    if command.needs_database() {
        let chosen = app.chosen()?;
        if !app.json && !command.reports_database_itself() {
            output::complain(&format!("using {chosen}"));
        }
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("starting the runtime: {error}")))?;
    let answer = runtime.block_on(execute(command, app));
    // Does not wait for tasks: a handler that never returns must not keep a stopped worker alive.
    runtime.shutdown_background();
    answer
}

async fn execute(command: Command, app: App<'_>) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::run(app, &args).await,
        Command::Migrate { action } => migrate::migrate(&app, action.unwrap_or(MigrateAction::Up)).await,
        Command::Migrations { action } => migrations::migrations(&app, &action),
        Command::Check { .. } => Err(CliError::usage(
            "`check` and `doctor` are one command: write `worker doctor`, and `worker doctor --before-deploy` to examine a program before \
             it replaces the live workers",
        )),
        Command::List(args) => list::list(&app, &args).await,
        Command::Show { id, backtraces } => show::show(&app, id, backtraces).await,
        Command::Retry(args) => act::act(&app, Action::Retry, &args).await,
        Command::RunNow(args) => act::act(&app, Action::RunNow, &args).await,
        Command::Cancel(args) => act::act(&app, Action::Cancel, &args).await,
        Command::Discard(args) => act::act(&app, Action::Discard, &args).await,
        Command::Delete(args) => act::act(&app, Action::Delete, &args).await,
        Command::Move(args) => act::act(&app, Action::Move(args.to), &args.act).await,
        Command::Reschedule(args) => act::act(&app, Action::Reschedule(args.time()), &args.act).await,
        Command::Reprioritise(args) => act::act(&app, Action::Reprioritise(args.to), &args.act).await,
        Command::Rerun(args) => act::act(&app, Action::Rerun, &args).await,
        Command::ReleasePermit(args) => release::permit(&app, &args).await,
        Command::ReleaseKey(args) => release::key(&app, &args).await,
        Command::Failures(args) => failures::failures(&app, &args).await,
        Command::Operations(args) => operations::operations(&app, &args).await,
        Command::Audit(args) => audit::audit(&app, &args).await,
        Command::Enqueue(args) => enqueue::enqueue(&app, &args).await,
        Command::Export(args) => transfer::export::export(&app, &args).await,
        Command::Import(args) => transfer::import::import(&app, &args).await,
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => completions::man(&args),
        Command::Why { id } => why::why(&app, id).await,
        Command::Doctor(args) => doctor::doctor(app, &args).await,
        Command::Stats => stats::stats(&app).await,
        Command::Tail(args) => tail::tail(&app, &args).await,
        #[cfg(feature = "top")]
        Command::Top(args) => top::top(&app, &args).await,
        #[cfg(not(feature = "top"))]
        Command::Top { .. } => Err(CliError::usage(
            "this program was built without the live view: add the feature `top` of `diesel-jobs` to its Cargo.toml",
        )),
        Command::Queues { action } => queue_commands::queues(&app, &action.unwrap_or(QueuesAction::List)).await,
        Command::Limits { action } => limits::limits(&app, &action.unwrap_or(LimitsAction::List)).await,
        Command::Sequences { action } => sequences::sequences(&app, &action.unwrap_or(SequencesAction::List)).await,
        Command::Kinds { action } => kinds::kinds(&app, &action.unwrap_or(KindsAction::List)).await,
        Command::Workers { action } => workers::workers(&app, &action.unwrap_or(WorkersAction::List)).await,
        Command::Retention { action } => retention::retention(&app, &action.unwrap_or(RetentionAction::List)).await,
        Command::Schedules { action } => schedules::schedules(&app, &action.unwrap_or(SchedulesAction::List)).await,
        Command::Freeze(args) => freeze::freeze(&app, &args).await,
        Command::Thaw(args) => freeze::thaw(&app, &args).await,
        Command::Environment { action } => {
            environment::environment(&app, &action.unwrap_or(EnvironmentAction::Show)).await
        }
        #[cfg(feature = "dashboard")]
        Command::Dashboard(args) => dashboard::dashboard(&app, args).await,
        #[cfg(not(feature = "dashboard"))]
        Command::Dashboard { .. } => Err(CliError::usage(
            "this program was built without the dashboard: add the feature `dashboard` of `diesel-jobs` to its Cargo.toml",
        )),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::bench(&app, &args).await,
        #[cfg(feature = "bench")]
        Command::BenchWorker(args) => bench::process::work(&app, &args).await,
        #[cfg(not(feature = "bench"))]
        Command::Bench { .. } => Err(CliError::usage(
            "this program was built without the load test: add the feature `bench` of `diesel-jobs` to its Cargo.toml",
        )),
    }
}
