//! `failures`: the newest failures in groups, and commands for the jobs of a group.

use clap::{Args, Subcommand};
use diesel_jobs_core::Registry;
use diesel_jobs_core::storage::{Action, ENTRIES_EXAMINED, FAILURES_EXAMINED, Failures, JobFilter};

use super::act::args::How;
use super::act::matching::{self, Plan};
use super::app::App;
use super::exit::{CliError, Exit};
use super::filter_args::searchable;
use super::output::{self, Align, Table};
use super::parse::{fingerprint, positive};
use super::{database, wording};

/// The most columns that an error takes beneath its group.
const SHOWN: usize = 200;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct FailuresArgs {
    /// Only jobs of this kind, under any of its names
    #[arg(long)]
    kind: Option<String>,
    /// At most this many groups, the largest
    #[arg(long, value_name = "N", default_value = "20", value_parser = positive)]
    limit: usize,
    #[command(subcommand)]
    action: Option<FailuresAction>,
}

#[derive(Debug, Subcommand)]
pub(super) enum FailuresAction {
    /// Retry the jobs whose newest failure is of this group
    Retry(GroupArgs),
    /// Discard those of these jobs that wait for another attempt
    Discard(GroupArgs),
}

#[derive(Debug, Args)]
pub(super) struct GroupArgs {
    /// The fingerprint of the group, as `worker failures` prints it
    #[arg(allow_negative_numbers = true, value_parser = fingerprint)]
    fingerprint: i64,
    /// Only jobs of this kind, under any of its names. Groups of several kinds may have the same
    /// fingerprint
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    how: How,
}

pub(super) async fn failures(app: &App<'_>, args: &FailuresArgs) -> Result<Exit, CliError> {
    let (action, group) = match &args.action {
        None => return list(app, args).await,
        Some(FailuresAction::Retry(group)) => (Action::Retry, group),
        Some(FailuresAction::Discard(group)) => (Action::Discard, group),
    };
    let filter = searchable(&JobFilter {
        kinds: group.kind.iter().cloned().collect(),
        fingerprint: Some(group.fingerprint),
        ..JobFilter::default()
    })?;
    let plan = Plan { action, filter, actor: group.how.who.name(app)?, typed: None };
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    matching::act(app, &*database.operator, &plan, &group.how).await
}

async fn list(app: &App<'_>, args: &FailuresArgs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    // With a kind, all groups are read: those of the kind may not be among the largest groups of all kinds.
    let groups = if args.kind.is_some() { FAILURES_EXAMINED } else { args.limit };
    let mut failures = database.operator.failures(groups).await?;
    let names = args.kind.as_deref().map(|kind| Registry::linked().names(kind));
    failures.groups.retain(|group| names.as_ref().is_none_or(|names| names.contains(&group.kind.as_str())));
    failures.groups.truncate(args.limit);
    output::print(app.json, &failures, || human(&failures))?;
    Ok(Exit::Fine)
}

fn human(failures: &Failures) -> String {
    let examined = wording::grouped(failures.examined as u64);
    if failures.groups.is_empty() && failures.is_complete {
        return "no failure is stored\n".to_owned();
    }
    if failures.examined == 0 {
        let entries = wording::grouped(ENTRIES_EXAMINED as u64);
        return format!("no failure is among the newest {entries} entries, which are of cancelled jobs\n");
    }
    if failures.groups.is_empty() {
        return format!("none among the newest {examined} failures\n");
    }
    let mut table = Table::new(&[
        ("KIND", Align::Left),
        ("LAST HOUR", Align::Right),
        ("FAILURES", Align::Right),
        ("JOBS", Align::Right),
        ("DISCARDED", Align::Right),
        ("RETRYING", Align::Right),
        ("NEWEST", Align::Left),
        ("JOB", Align::Right),
        ("FINGERPRINT", Align::Right),
    ]);
    for group in &failures.groups {
        table.row([
            group.kind.clone(),
            wording::grouped(group.last_hour),
            wording::grouped(group.failures),
            wording::grouped(group.jobs),
            wording::grouped(group.discarded),
            wording::grouped(group.retrying),
            output::time(group.last_at),
            group.sample.to_string(),
            group.fingerprint.map_or_else(|| "-".to_owned(), |fingerprint| fingerprint.to_string()),
        ]);
    }
    let table = table.render();
    let mut rows = table.lines();
    let mut text = rows.next().unwrap_or_default().to_owned() + "\n";
    for (row, group) in rows.zip(&failures.groups) {
        let error = output::start_of(&output::printable(&group.message), SHOWN);
        text.push_str(&format!("{row}\n    {error}\n"));
    }
    let all = if failures.is_complete { "all".to_owned() } else { "the newest".to_owned() };
    format!(
        "{text}\n{all} {examined} failures that are stored were read; JOB is the newest job of a group\n\
         `worker failures retry FINGERPRINT --kind KIND` retries the jobs of a group, `worker show JOB` prints an error in full\n"
    )
}
