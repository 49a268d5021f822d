//! The arguments of `schedules`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use diesel_jobs_core::__private::every;
use diesel_jobs_core::CatchUp;

use super::super::actor_args::{Named, Pausing, Who};
use super::super::parse;

#[derive(Debug, Subcommand)]
pub(in super::super) enum SchedulesAction {
    /// Print the schedules with their next five ticks; the default
    List,
    /// Print one schedule
    Show {
        /// Its name
        name: String,
    },
    /// Add a schedule; workers notice it within seconds, and within a minute if there was none
    Add(AddArgs),
    /// Change when a schedule ticks; workers do not overwrite it, and `reset` goes back to what the code declares
    Change(ChangeArgs),
    /// Pause a schedule: it does not tick until `resume`
    Pause(Pausing),
    /// End the pause of a schedule; its `catch_up` applies to the missed ticks
    Resume(Named),
    /// Enqueue a job of a schedule now, outside its ticks
    Trigger(Named),
    /// Enqueue the jobs of all ticks in a period; says first how many there are
    Backfill(BackfillArgs),
    /// Remove a schedule that was added here; one that code declares is paused instead
    Remove(Named),
    /// Restore what the code declares for a changed schedule
    Reset(Named),
}

#[derive(Debug, Args)]
pub(in super::super) struct AddArgs {
    /// A name that no other schedule has
    pub(super) name: String,
    /// The kind of its jobs
    pub(super) kind: String,
    /// The cron expression, such as "0 0 2 * * *" for every night at two
    #[arg(long, value_name = "EXPRESSION", value_parser = cron, required_unless_present = "every")]
    pub(super) cron: Option<String>,
    /// The interval, such as 90m: the ticks are its multiples since 1970-01-01 00:00 UTC
    #[arg(long, value_name = "INTERVAL", value_parser = interval, conflicts_with_all = ["cron", "timezone"])]
    pub(super) every: Option<String>,
    /// The IANA time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(super) timezone: String,
    /// How missed ticks are treated: skip, last or all; the jobs of all of them wait before newer jobs of their queue
    #[arg(long, value_name = "RULE", default_value = "skip")]
    pub(super) catch_up: CatchUp,
    /// The arguments of its jobs, as a JSON object [default: no arguments]
    #[arg(long, value_name = "JSON")]
    pub(super) args: Option<String>,
    /// The queue of its jobs [default: the kind's]
    #[arg(long, value_parser = parse::typed_name)]
    pub(super) queue: Option<String>,
    /// Their priority [default: the kind's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse::priority)]
    pub(super) priority: Option<i16>,
    /// How many attempts they have [default: as the kind says]
    #[arg(long, value_name = "N", value_parser = parse::attempts)]
    pub(super) max_attempts: Option<u16>,
    #[command(flatten)]
    pub(super) who: Who,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["cron", "every", "timezone", "catch_up"])))]
pub(in super::super) struct ChangeArgs {
    /// The schedule
    pub(super) name: String,
    /// Another cron expression
    #[arg(long, value_name = "EXPRESSION", value_parser = cron)]
    pub(super) cron: Option<String>,
    /// Another interval, such as 90m
    #[arg(long, value_name = "INTERVAL", value_parser = interval, conflicts_with_all = ["cron", "timezone"])]
    pub(super) every: Option<String>,
    /// Another IANA time zone
    #[arg(long, value_name = "ZONE")]
    pub(super) timezone: Option<String>,
    /// Another rule for missed ticks: skip, last or all
    #[arg(long, value_name = "RULE")]
    pub(super) catch_up: Option<CatchUp>,
    #[command(flatten)]
    pub(super) who: Who,
}

#[derive(Debug, Args)]
pub(in super::super) struct BackfillArgs {
    /// The schedule
    pub(super) name: String,
    /// The first instant, such as 2026-01-31 (midnight UTC) or 2026-01-31T08:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(super) from: DateTime<Utc>,
    /// The last instant [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(super) to: Option<DateTime<Utc>>,
    /// Only say how many jobs it would enqueue
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) who: Who,
}

/// Parses an interval. Returns it as it is stored.
fn interval(text: &str) -> Result<String, String> {
    every(text).map_err(|problem| problem.to_string())
}

/// Refuses the stored form of an interval. The database's commands check the rest of the expression.
fn cron(text: &str) -> Result<String, String> {
    let mut words = text.split_whitespace();
    if words.next() != Some("@every") {
        return Ok(text.to_owned());
    }
    let interval = words.collect::<Vec<_>>().join(" ");
    let interval = if every(&interval).is_ok() { &interval } else { "90m" };
    Err(format!("an interval is no cron expression; write it as `--every`, such as `--every {interval:?}`"))
}
