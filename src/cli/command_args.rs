//! The options of single commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use clap_complete::Shell;
use diesel_jobs_core::Happened;

use super::actor_args::Who;
use super::backend_args::BackendArgs;
use super::duration;
use super::parse::{entry, one_queue, path, positive};
use super::run_args::RunArgs;

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
    /// Print the SQL that creates two PostgreSQL roles, one that may only enqueue and one for workers, and grants their
    /// privileges. Needs no database
    Roles,
}

#[derive(Debug, Subcommand)]
pub(super) enum MigrationsAction {
    /// Write each version as a Diesel migration folder into DIR, for `diesel migration run`. Needs no database
    ///
    /// Repeating it after an upgrade adds the new versions only; a folder whose files differ is never overwritten.
    Copy {
        /// Your Diesel migrations directory; it is created if it is missing
        #[arg(value_parser = PathBufValueParser::new().try_map(path))]
        dir: PathBuf,
        #[command(flatten)]
        backend: BackendArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct FreezeArgs {
    /// The reason, in one line; commands and logs show it
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    #[command(flatten)]
    pub(super) who: Who,
}

#[derive(Debug, Args)]
pub(super) struct ThawArgs {
    /// First cancel all jobs that wait or run, and let schedules continue from now: for a copy whose jobs must not run
    #[arg(long)]
    pub(super) cancel_jobs: bool,
    #[command(flatten)]
    pub(super) who: Who,
}

/// The options of `doctor`: its own, and those of the worker whose program it examines.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Report due jobs that have waited longer than this
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse_positive)]
    pub(super) objective: Duration,
    /// Report transactions that have been open longer than this
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse_positive)]
    pub(super) transaction: Duration,
    /// Compare the waiting jobs and schedules with this program instead of the live workers, as if it had replaced them
    #[arg(long)]
    pub(super) before_deploy: bool,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum EnvironmentAction {
    /// Print the name; the default
    Show,
    /// Set the name
    Set(SetArgs),
    /// Remove the name, so that any worker may serve the database
    Unset(Who),
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The name, such as production or staging
    pub(super) name: String,
    /// First cancel all jobs that wait or run, and let schedules continue from now
    #[arg(long, conflicts_with = "keep_jobs")]
    pub(super) cancel_jobs: bool,
    /// Keep the jobs in the database, even though they come from another environment
    #[arg(long)]
    pub(super) keep_jobs: bool,
    #[command(flatten)]
    pub(super) who: Who,
}

/// A page of a list whose entries have ids.
#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// At most this many, the newest
    #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
    pub(super) limit: usize,
    /// The next page: only those with a lower id than this
    #[arg(long, value_name = "ID", value_parser = entry)]
    pub(super) before: Option<i64>,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: Shell,
    /// The name under which the program is called
    #[arg(long, value_name = "NAME", default_value = "worker")]
    pub(super) name: String,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write a page for each command into this directory, which must exist
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(path))]
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    /// Only jobs of this queue
    #[arg(long, value_parser = one_queue)]
    pub(super) queue: Option<String>,
    /// Only jobs of this kind, under any of its names
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Only this event: started, completed, retried, discarded, cancelled or rescued; may be given several times
    #[arg(long, value_name = "EVENT", value_parser = happened)]
    pub(super) state: Vec<Happened>,
    /// How often the database is read
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse_positive)]
    pub(super) interval: Duration,
}

fn happened(text: &str) -> Result<Happened, String> {
    Happened::ALL.into_iter().find(|event| event.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Happened::ALL.map(Happened::as_str).to_vec();
        format!("{text:?} is not an event; write one of {}", names.join(", "))
    })
}
