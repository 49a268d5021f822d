//! The parsed command line. [`settings`](super::settings) adds the values from the environment, because an error in one
//! of them must name the variable.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use diesel_jobs_storage::Backend;

#[cfg(feature = "bench")]
use super::bench::args::{BenchArgs, WorkArgs};
use super::command_args::{EnvironmentAction, FreezeArgs, IdArgs, ListArgs, ThawArgs};
use super::duration;
use super::exit::{self, CliError};
use super::logging::LogFormat;
use super::parse::{connections, id, name, positive};
use super::queues::QueueList;

/// Runs background jobs, and manages them.
///
/// Without a command it runs the jobs of this program until it is asked to stop.
#[derive(Debug, Parser)]
#[command(name = "worker", max_term_width = 120, version = concat!("(jobs ", env!("CARGO_PKG_VERSION"), ")"), after_help = exit::HELP)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// The options of all commands.
#[derive(Debug, Args)]
pub(super) struct GlobalArgs {
    /// The database: postgres://user@host/name or sqlite://path/to/file.db. Other users of the machine can
    /// read command lines, so set a URL with a password in the variable: in the environment or in a file .env
    /// [env: DATABASE_URL] [default: sqlite://jobs.db in a program built for SQLite alone]
    #[arg(long, global = true, value_name = "URL", help_heading = "Options of all commands")]
    pub(super) database_url: Option<String>,
    /// The format of log lines; RUST_LOG selects which lines are logged [env: JOBS_LOG_FORMAT] [default: pretty]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Options of all commands")]
    pub(super) log: Option<LogFormat>,
    /// Answer in JSON: one object or array on one line
    #[arg(long, global = true, help_heading = "Options of all commands")]
    pub(super) json: bool,
}

/// The options of the worker. They take precedence over the environment, and both over the program's set-up function.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RunArgs {
    /// Serve only these queues, each with this number of slots: mail=10,default=50. A queue without a number has
    /// --concurrency slots. A queue that is not the default of any job is served, too; the log then shows which jobs are in it
    /// [env: JOBS_QUEUES] [default: the default queues of the program's jobs]
    #[arg(long, value_name = "QUEUES", value_parser = QueueList::parse, help_heading = "Options of run")]
    pub(super) queues: Option<QueueList>,
    /// Slots of each queue that is named without a number [env: JOBS_CONCURRENCY] [default: 16]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Options of run")]
    pub(super) concurrency: Option<usize>,
    /// Connections for transactional handlers, and for loading the rows that handlers take; if all are in use, handlers wait
    /// [env: JOBS_CONNECTIONS] [default: one per slot, at most 20]
    #[arg(long, value_name = "N", value_parser = connections, help_heading = "Options of run")]
    pub(super) connections: Option<usize>,
    /// The interval of the poll, which finds jobs without a notification, such as 500ms [env: JOBS_POLL] [default: 3s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) poll: Option<Duration>,
    /// How long running jobs may continue after SIGTERM or SIGINT; a second signal stops at once. Unfinished jobs are then
    /// released, and no attempt is consumed [env: JOBS_GRACE] [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Options of run")]
    pub(super) grace: Option<Duration>,
    /// How long after its last heartbeat a worker counts as dead, and its jobs are rescued; at least 1s [env: JOBS_LEASE] [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) lease: Option<Duration>,
    /// Time limit of one attempt, if its kind has no `timeout` [env: JOBS_TIMEOUT] [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, help_heading = "Options of run")]
    pub(super) timeout: Option<Duration>,
    /// A job is discarded at this many counted crashes; before the last one it runs alone in its process [env: JOBS_MAX_CRASHES] [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Options of run")]
    pub(super) max_crashes: Option<u16>,
    /// The environment that this worker belongs to, such as production. If `environment set` has named a database, only
    /// workers with the same name serve it, so that other workers do not run the jobs of a copy [env: JOBS_ENVIRONMENT] [default: none]
    #[arg(long, value_name = "NAME", value_parser = name, help_heading = "Options of run")]
    pub(super) environment: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run jobs until SIGTERM or SIGINT; the default command
    Run(RunArgs),
    /// Migrate the schema to this program's version, or revert it
    Migrate {
        #[command(subcommand)]
        action: Option<MigrateAction>,
    },
    /// Write the schema's migrations for Diesel's command line
    Migrations {
        #[command(subcommand)]
        action: MigrationsAction,
    },
    /// Report problems that prevent jobs from running: schema, handlers, unserved queues and kinds, schedules
    ///
    /// Takes the options of `run`, and checks what that worker would serve. Fails if it finds an error, and not if it finds only
    /// warnings.
    #[command(after_help = exit::HELP)]
    Check(RunArgs),
    /// List jobs, newest first
    List(ListArgs),
    /// Show one job with its arguments and the failures of its attempts
    Show {
        /// The job
        #[arg(value_parser = id)]
        id: i64,
    },
    /// Make jobs available now that were cancelled or discarded, or that wait for a later time
    Retry(IdArgs),
    /// Cancel waiting or running jobs; a running handler is asked to stop, and its finish is refused
    Cancel(IdArgs),
    /// Print the number of jobs of each queue and kind, and the workers
    Stats,
    /// Stop all claims of all workers until `thaw`; running jobs continue
    ///
    /// Jobs can still be enqueued, but schedules do not tick, and ended jobs are not pruned. The freeze is stored in the database, so it
    /// also applies to workers that start later and to workers of a copy. After the thaw, missed ticks are treated as the `catch_up` of
    /// each schedule says.
    Freeze(FreezeArgs),
    /// End a freeze
    Thaw(ThawArgs),
    /// Print or set the environment of the database: only workers of the same environment serve it
    ///
    /// The name is stored in the database, and each dump and copy contains it. So workers of another environment, or of none, do not
    /// start on a copy of production.
    Environment {
        #[command(subcommand)]
        action: Option<EnvironmentAction>,
    },
    /// Load-test this database: the job rate, how late jobs start, and what limits the rate
    ///
    /// Uses its own schema, `jobs_bench` (with SQLite: a directory beside the file), and the statements that applications and
    /// workers send. Drops the schema afterwards. It does not change your jobs, but it writes as fast as it can, which affects
    /// all users of the server. Raises connections, batch size and processes until the rate no longer grows.
    #[cfg(feature = "bench")]
    #[command(after_help = exit::HELP)]
    Bench(BenchArgs),
    /// A worker process of `bench`, which starts it
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    BenchWorker(WorkArgs),
    /// Explains why `bench` is missing in this program
    #[cfg(not(feature = "bench"))]
    #[command(hide = true)]
    Bench {
        /// The options of `bench`, which are ignored
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum MigrateAction {
    /// Apply every version that is missing; the default
    Up,
    /// Revert the newest version. Reverting the first one deletes all jobs
    Down {
        /// Delete jobs that wait or run, even if workers are alive
        #[arg(long)]
        delete_jobs: bool,
    },
    /// Print which versions are applied
    Status,
    /// Print the SQL of all versions, to apply it by hand. Needs no database
    Sql(BackendArgs),
    /// Print the SQL that creates two PostgreSQL roles, one that may only enqueue and one for workers, and grants their privileges.
    /// Needs no database
    Roles,
}

#[derive(Debug, Subcommand)]
pub(super) enum MigrationsAction {
    /// Write each version as a Diesel migration folder into DIR, for `diesel migration run`. Needs no database
    ///
    /// Repeating it after an upgrade adds the new versions only; a folder whose files differ is never overwritten.
    Copy {
        /// Your Diesel migrations directory; it must exist
        dir: PathBuf,
        #[command(flatten)]
        backend: BackendArgs,
    },
}

/// Selects the database whose SQL is printed or written.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct BackendArgs {
    /// The database whose SQL is printed or written [default: the one of the database URL]
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
}

impl BackendArgs {
    /// Returns the backend of the option, else the backend of `url`, else the only backend that this program was built
    /// with.
    pub(super) fn resolve(self, url: Option<&str>) -> Result<Backend, CliError> {
        match (self.backend, url, Backend::built_in()) {
            (Some(BackendName::Postgres), _, _) => Ok(Backend::Postgres),
            (Some(BackendName::Sqlite), _, _) => Ok(Backend::Sqlite),
            (None, Some(url), _) => Ok(Backend::of(url)?),
            (None, None, [only]) => Ok(*only),
            (None, None, _) => Err(CliError::usage(
                "it is not known for which database: write --backend postgres or --backend sqlite, or set DATABASE_URL",
            )),
        }
    }
}

impl Command {
    /// Whether the command reports its database itself. `run` logs it after it has installed its signal handlers. For a
    /// worker process of the load test, the parent process has printed it.
    pub(super) fn reports_database_itself(&self) -> bool {
        match self {
            Self::Run(_) => true,
            #[cfg(feature = "bench")]
            Self::BenchWorker(_) => true,
            _ => false,
        }
    }

    /// Whether the command connects to the database.
    pub(super) fn needs_database(&self) -> bool {
        match self {
            #[cfg(not(feature = "bench"))]
            Self::Bench { .. } => false,
            Self::Migrations { action: MigrationsAction::Copy { .. } } => false,
            Self::Migrate { action } => !matches!(action, Some(MigrateAction::Sql(_) | MigrateAction::Roles)),
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BackendName {
    Postgres,
    Sqlite,
}

impl RunArgs {
    /// Whether no option was given.
    pub(super) fn is_empty(&self) -> bool {
        let Self { queues, concurrency, connections, poll, grace, lease, timeout, max_crashes, environment } = self;
        queues.is_none()
            && concurrency.is_none()
            && connections.is_none()
            && poll.is_none()
            && grace.is_none()
            && lease.is_none()
            && timeout.is_none()
            && max_crashes.is_none()
            && environment.is_none()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_run_need_no_command() {
        let cli = Cli::try_parse_from(["worker", "--queues", "mail=3", "--poll", "200ms"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.run.poll, Some(Duration::from_millis(200)));
        assert!(!cli.run.is_empty());
    }

    #[test]
    fn options_of_all_commands_stand_before_or_after_the_command() {
        for line in [["worker", "--json", "stats"], ["worker", "stats", "--json"]] {
            assert!(Cli::try_parse_from(line).unwrap().global.json);
        }
    }

    #[test]
    fn an_unknown_state_is_refused_with_the_list_of_states() {
        let error = Cli::try_parse_from(["worker", "list", "--state", "sleeping"]).unwrap_err().to_string();
        assert!(error.contains("available, scheduled, retrying, running, completed, cancelled, discarded"), "{error}");
    }
}
