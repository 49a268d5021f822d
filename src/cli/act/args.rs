//! The arguments of the commands that act on jobs.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{JobFilter, STEP};

use super::super::actor_args::Who;
use super::super::duration;
use super::super::exit::CliError;
use super::super::filter_args::FilterArgs;
use super::super::parse::{id, instant, positive, priority, typed_name};

/// The jobs, and how the command is done.
#[derive(Debug, Args)]
pub(in super::super) struct ActArgs {
    #[command(flatten)]
    pub(super) jobs: Jobs,
    #[command(flatten)]
    pub(super) how: How,
}

#[derive(Debug, Args)]
pub(in super::super) struct MoveArgs {
    /// The queue to which the jobs are moved
    #[arg(long, value_name = "QUEUE", value_parser = typed_name)]
    pub(in super::super) to: String,
    #[command(flatten)]
    pub(in super::super) act: ActArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct ReprioritiseArgs {
    /// The new priority, from -32768 to 32767; higher runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    pub(in super::super) to: i16,
    #[command(flatten)]
    pub(in super::super) act: ActArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct RescheduleArgs {
    /// When the jobs are due, such as 2026-01-31 (midnight UTC) or 2026-01-31T08:00:00+01:00
    #[arg(long, visible_alias = "run-at", value_name = "TIME", value_parser = instant)]
    #[arg(required_unless_present = "delay", conflicts_with = "delay")]
    at: Option<DateTime<Utc>>,
    /// After how long they are due, counted from now by this machine's clock, such as 10m
    #[arg(long = "in", value_name = "DURATION", value_parser = duration::parse)]
    delay: Option<Duration>,
    #[command(flatten)]
    pub(in super::super) act: ActArgs,
}

impl RescheduleArgs {
    /// The time at which the jobs are to be due. One that no clock can represent is the last one, which is refused.
    pub(in super::super) fn time(&self) -> DateTime<Utc> {
        let delay = TimeDelta::from_std(self.delay.unwrap_or_default()).unwrap_or(TimeDelta::MAX);
        self.at.unwrap_or_else(|| Utc::now().checked_add_signed(delay).unwrap_or(DateTime::<Utc>::MAX_UTC))
    }
}

/// Which jobs.
#[derive(Debug, Args)]
pub(in super::super) struct Jobs {
    /// The jobs, by their ids; or a filter instead
    #[arg(value_name = "ID", value_parser = id)]
    ids: Vec<i64>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All jobs that the command applies to
    #[arg(long, help_heading = "Which jobs")]
    all: bool,
}

/// How the command is done.
#[derive(Debug, Args)]
#[command(next_help_heading = "How")]
pub(in super::super) struct How {
    /// Change nothing: print how many jobs match, and some of them
    #[arg(long, conflicts_with_all = ["yes", "detach"])]
    pub(in super::super) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(in super::super) yes: bool,
    /// Change at most this many of the jobs that match, the newest
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "detach")]
    pub(in super::super) limit: Option<usize>,
    /// Change at most this many jobs in one transaction, up to 1000
    #[arg(long, value_name = "N", default_value_t = STEP, value_parser = batch)]
    pub(in super::super) batch: usize,
    /// Leave the work to the workers, and return at once
    #[arg(long)]
    pub(in super::super) detach: bool,
    #[command(flatten)]
    pub(in super::super) who: Who,
}

/// The jobs that the user has named.
pub(super) enum Chosen {
    Ids(Vec<JobId>),
    Matching(Box<JobFilter>),
}

impl ActArgs {
    /// The jobs. Fails if it is not clear which ones are meant: a command must not act on all jobs because an option
    /// was forgotten.
    pub(super) fn chosen(&self, command: &str) -> Result<Chosen, CliError> {
        let Jobs { ids, filter, all } = &self.jobs;
        let filter = filter.filter()?;
        match (ids.is_empty(), filter.matches_all(), all) {
            (false, true, false) if self.how.detach || self.how.limit.is_some() => {
                Err(CliError::usage("--detach and --limit need a filter instead of ids"))
            }
            (false, true, false) => Ok(Chosen::Ids(ids.iter().copied().map(JobId).collect())),
            (true, false, false) | (true, true, true) => Ok(Chosen::Matching(Box::new(filter))),
            (true, true, false) => Err(CliError::usage(format!(
                "which jobs? Write their ids, or a filter such as `{command} --kind charge --state discarded`; --all means all jobs to \
                 which `{command}` applies"
            ))),
            (false, ..) => Err(CliError::usage(
                "ids, a filter and --all do not go together; to check ids by a filter, write --filter \"id:7,8 state:discarded\"",
            )),
            (true, false, true) => Err(CliError::usage("--all and a filter do not go together; leave out one of them")),
        }
    }
}

fn batch(text: &str) -> Result<usize, String> {
    match positive(text) {
        Ok(number) if number <= STEP => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1 to {STEP}")),
    }
}
