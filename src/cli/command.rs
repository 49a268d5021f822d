//! The commands of the command line.

use clap::Subcommand;

use super::act::args::{ActArgs, MoveArgs, ReprioritiseArgs, RescheduleArgs};
#[cfg(feature = "bench")]
use super::bench::args::{BenchArgs, WorkArgs};
use super::command_args::{
    CompletionsArgs, DoctorArgs, EnvironmentAction, FreezeArgs, ManArgs, MigrateAction, MigrationsAction, PageArgs,
    TailArgs, ThawArgs,
};
#[cfg(feature = "dashboard")]
use super::dashboard::args::DashboardArgs;
use super::enqueue::EnqueueArgs;
use super::failures::FailuresArgs;
use super::kinds::KindsAction;
use super::limits::LimitsAction;
use super::list::ListArgs;
use super::operations::OperationsArgs;
use super::parse::id;
use super::queue_commands::args::QueuesAction;
use super::release::ReleaseArgs;
use super::retention::RetentionAction;
use super::run_args::RunArgs;
use super::schedules::args::SchedulesAction;
use super::sequences::SequencesAction;
#[cfg(feature = "top")]
use super::top::args::TopArgs;
use super::transfer::export::ExportArgs;
use super::transfer::import::ImportArgs;
use super::workers::WorkersAction;

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
    /// Names `doctor`, of which it is a part
    #[command(hide = true)]
    Check {
        /// The options of `doctor`, which are ignored
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// List jobs, newest first
    List(ListArgs),
    /// Show one job with its arguments and the failures of its attempts
    Show {
        /// The job
        #[arg(value_parser = id)]
        id: i64,
        /// Print the backtraces of errors and panics. They are captured if workers run with RUST_BACKTRACE=1
        #[arg(long)]
        backtraces: bool,
    },
    /// Make cancelled, discarded and waiting jobs due now
    ///
    /// Each job then has at least one attempt left.
    ///
    /// Name the jobs by their ids, or by a filter. With a filter the command prints how many jobs match and some of
    /// them, asks, and then changes them in batches of at most 1000. After Ctrl-C the workers do the rest: see
    /// `operations`.
    Retry(ActArgs),
    /// Make waiting jobs due now; nothing else about them changes
    RunNow(ActArgs),
    /// Set the time at which waiting jobs are due
    ///
    /// A time in the past means now. Jobs that run or have ended are left alone.
    Reschedule(RescheduleArgs),
    /// Cancel waiting and running jobs
    ///
    /// The handler of a running job is asked to stop, and its finish is refused.
    Cancel(ActArgs),
    /// Discard waiting jobs, as if they were out of attempts
    Discard(ActArgs),
    /// Delete jobs that wait or have ended, with their failures and outputs
    Delete(ActArgs),
    /// Move waiting jobs to another queue
    Move(MoveArgs),
    /// Change the priority of waiting jobs
    Reprioritise(ReprioritiseArgs),
    /// Enqueue ended jobs again, each under a new id and with all its attempts
    Rerun(ActArgs),
    /// Free the permits of a job that does not need them
    ///
    /// It is refused while the job is available, or runs in a worker that is alive. For sequences: `worker sequences
    /// skip`.
    ReleasePermit(ReleaseArgs),
    /// Take the unique key away from a job, which continues
    ///
    /// The next enqueue with the same key inserts a job.
    ReleaseKey(ReleaseArgs),
    /// Print the actions on all jobs that match; resume or cancel one
    Operations(OperationsArgs),
    /// Print who has changed what, newest first
    Audit(PageArgs),
    /// Enqueue a job of one of this program's kinds
    ///
    /// The arguments are checked as the handler would read them, and the job gets the options, limits and unique key of
    /// its kind.
    Enqueue(EnqueueArgs),
    /// Write jobs as lines of JSON, oldest first
    ///
    /// Values of secret arguments are left out, if this program knows the kind.
    Export(ExportArgs),
    /// Enqueue jobs from lines of JSON
    ///
    /// All lines are checked first. If one is wrong, nothing is imported. Each job gets a new id and all its attempts.
    Import(ImportArgs),
    /// Explain why a job does not run, or what happened to it
    Why {
        /// The job
        #[arg(value_parser = id)]
        id: i64,
    },
    /// Report what prevents jobs from running, and how to repair it
    ///
    /// It examines this program, with the options of `run`, and the database: the schema, the settings, queues, kinds
    /// and schedules that no live worker serves, late jobs, dead workers and old transactions. While no worker
    /// claims jobs, it compares the waiting jobs with this program. It fails if it finds an error, and not if it finds
    /// only warnings. It changes nothing.
    Doctor(DoctorArgs),
    /// Print the number of jobs of each queue and kind, and the workers
    ///
    /// RUNNING counts the jobs that workers have claimed. Some of them may be prefetched: they start within a quarter
    /// of a second, or the worker gives them back. So it may be higher than the number of slots.
    Stats,
    /// Print the newest failures in groups; retry or discard the jobs of one
    ///
    /// Failures of the same kind with the same text, apart from numbers and ids, are a group. A failure is an attempt
    /// that failed, so a job that was cancelled or discarded counts only if it had failed before.
    Failures(FailuresArgs),
    /// Print what happens to jobs, a line for each event
    ///
    /// It prints until it is interrupted.
    ///
    /// It reads the database repeatedly, so it misses jobs that are not kept when they complete, and starts of attempts
    /// that take less time than the interval.
    Tail(TailArgs),
    /// Show queues, kinds, workers and running jobs live; `?` lists the keys
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Explains why `top` is missing in this program
    #[cfg(not(feature = "top"))]
    #[command(hide = true)]
    Top {
        /// The options of `top`, which are ignored
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Print the queues and who serves them; pause, drain or purge one, or set its slots
    Queues {
        #[command(subcommand)]
        action: Option<QueuesAction>,
    },
    /// Print the kinds, and pause or resume one
    Kinds {
        #[command(subcommand)]
        action: Option<KindsAction>,
    },
    /// Print the workers and what they run; ask one to be quiet or to stop
    Workers {
        #[command(subcommand)]
        action: Option<WorkersAction>,
    },
    /// Print or set how long ended jobs are kept
    ///
    /// What is set here applies instead of what the workers were started with.
    Retention {
        #[command(subcommand)]
        action: Option<RetentionAction>,
    },
    /// Print the schedules; add, change, pause, trigger or backfill one
    Schedules {
        #[command(subcommand)]
        action: Option<SchedulesAction>,
    },
    /// Print the limits; set how many jobs with the same key run at once, or reset it
    Limits {
        #[command(subcommand)]
        action: Option<LimitsAction>,
    },
    /// Print the halted sequences; continue one without its discarded job
    Sequences {
        #[command(subcommand)]
        action: Option<SequencesAction>,
    },
    /// Stop all claims of all workers until `thaw`; running jobs continue
    ///
    /// Jobs can still be enqueued, but schedules do not tick, and ended jobs are not pruned. The freeze is stored in
    /// the database, so it also applies to workers that start later and to workers of a copy. After the thaw, the
    /// `catch_up` of each schedule applies to its missed ticks.
    Freeze(FreezeArgs),
    /// End a freeze
    Thaw(ThawArgs),
    /// Print or set the environment of the database; only its workers serve it
    ///
    /// The name is stored in the database, and each dump and copy contains it. So workers of another environment, or of
    /// none, do not start on a copy of production.
    Environment {
        #[command(subcommand)]
        action: Option<EnvironmentAction>,
    },
    /// Serve pages that show what happens to jobs, and act on them
    ///
    /// It listens on this machine only, and anyone who can connect may do anything. At another address it needs
    /// `--allow-remote` and a token in the variable JOBS_DASHBOARD_TOKEN, which the browser asks for as a password.
    #[cfg(feature = "dashboard")]
    Dashboard(DashboardArgs),
    /// Explains why `dashboard` is missing in this program
    #[cfg(not(feature = "dashboard"))]
    #[command(hide = true)]
    Dashboard {
        /// The options of `dashboard`, which are ignored
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Load-test this database: its job rate, and what limits it
    ///
    /// Uses its own schema, `jobs_bench` (with SQLite: a directory beside the file), and the statements that
    /// applications and workers send. Drops the schema afterwards. It does not change your jobs, but it writes as fast
    /// as it can, which affects all users of the server. Raises connections, batch size and processes until the rate no
    /// longer grows.
    #[cfg(feature = "bench")]
    Bench(BenchArgs),
    /// Print a script that completes commands and options in a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(ManArgs),
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

    /// Whether the command is a service, which runs until it is stopped.
    pub(super) fn runs_long(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Dashboard { .. })
    }

    /// Whether the command connects to the database.
    pub(super) fn needs_database(&self) -> bool {
        match self {
            #[cfg(not(feature = "bench"))]
            Self::Bench { .. } => false,
            #[cfg(not(feature = "dashboard"))]
            Self::Dashboard { .. } => false,
            Self::Check { .. } | Self::Completions(_) | Self::Man(_) => false,
            Self::Import(args) => args.needs_database(),
            Self::Migrations { action: MigrationsAction::Copy { .. } } => false,
            Self::Migrate { action } => !matches!(action, Some(MigrateAction::Sql(_) | MigrateAction::Roles)),
            _ => true,
        }
    }
}
