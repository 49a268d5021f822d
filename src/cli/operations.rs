//! `operations`: actions on all jobs that match a filter, and how far they are.

use clap::{Args, Subcommand};
use diesel_jobs_core::storage::{OperationId, OperationRecord, Operator, STEP};

use super::act::drive;
use super::act::report;
use super::actor_args::Who;
use super::app::App;
use super::command_args::PageArgs;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};
use super::parse::entry;
use super::progress::Progress;
use super::signals::Signals;
use super::{database, wording};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct OperationsArgs {
    #[command(flatten)]
    page: PageArgs,
    #[command(subcommand)]
    action: Option<OperationsAction>,
}

#[derive(Debug, Subcommand)]
enum OperationsAction {
    /// Print one operation
    Show(OneArgs),
    /// Continue with an operation here, until it is done. Workers continue with it, too
    Resume(OneArgs),
    /// End an operation before it is done. Jobs that it has changed stay changed
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The operation
    #[arg(value_parser = entry)]
    id: i64,
}

#[derive(Debug, Args)]
struct CancelArgs {
    /// The operation
    #[arg(value_parser = entry)]
    id: i64,
    #[command(flatten)]
    who: Who,
}

pub(super) async fn operations(app: &App<'_>, args: &OperationsArgs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let operator = &*database.operator;
    match &args.action {
        None => {
            let before = args.page.before.map(OperationId);
            let operations = operator.operations(before, args.page.limit).await?;
            output::print(app.json, &operations, || list(&operations, args.page.limit))?;
            Ok(Exit::Fine)
        }
        Some(OperationsAction::Show(args)) => {
            let record = find(operator, args.id).await?;
            output::print(app.json, &record, || show(&record))?;
            Ok(Exit::Fine)
        }
        Some(OperationsAction::Resume(args)) => resume(app, operator, args.id).await,
        Some(OperationsAction::Cancel(args)) => {
            let (id, actor) = (OperationId(args.id), args.who.name(app)?);
            let is_cancelled = operator.cancel_operation(id, &actor).await?;
            let record = find(operator, args.id).await?;
            output::print(app.json, &record, || match is_cancelled {
                true => report::ended(&record, None),
                false => format!("operation {id} had ended before: {}\n", state(&record)),
            })?;
            Ok(if is_cancelled { Exit::Fine } else { Exit::Failed })
        }
    }
}

async fn find(operator: &dyn Operator, id: i64) -> Result<OperationRecord, CliError> {
    let missing = || CliError::failed(format!("there is no operation {id}; `worker operations` lists them"));
    operator.operation(OperationId(id)).await?.ok_or_else(missing)
}

async fn resume(app: &App<'_>, operator: &dyn Operator, id: i64) -> Result<Exit, CliError> {
    let record = find(operator, id).await?;
    if record.finished_at.is_some() {
        output::print(app.json, &record, || format!("operation {id} had ended before: {}\n", state(&record)))?;
        return Ok(Exit::Fine);
    }
    let mut signals = Signals::install()?;
    let progress = Progress::of_operation(&record, None);
    let record = drive::drive(operator, record.id, STEP, progress, &mut signals).await?;
    output::print(app.json, &record, || match record.finished_at {
        None => format!("interrupted. {}\n", drive::advice(record.id)),
        Some(_) => report::ended(&record, None),
    })?;
    Ok(report::exit(&record))
}

/// How far it is, in words.
fn state(record: &OperationRecord) -> String {
    let text = match (&record.finished_at, &record.cancelled_by, &record.problem) {
        (None, ..) => format!("open, at job {} of {}", record.next_id, record.last_id),
        (Some(at), Some(actor), _) => format!("cancelled by {actor} at {}", output::time(*at)),
        (Some(at), None, Some(problem)) => format!("ended at {} with a problem: {problem}", output::time(*at)),
        (Some(at), None, None) => format!("done at {}", output::time(*at)),
    };
    output::printable(&text)
}

/// What it does, in words.
fn action(record: &OperationRecord) -> String {
    match &record.argument {
        Some(argument) => format!("{} to {argument}", record.action),
        None => record.action.clone(),
    }
}

fn changed(record: &OperationRecord) -> String {
    wording::grouped(u64::try_from(record.changed).unwrap_or_default())
}

fn list(operations: &[OperationRecord], limit: usize) -> String {
    let Some(oldest) = operations.last() else { return "there was no operation\n".to_owned() };
    let mut table = Table::new(&[
        ("ID", Align::Right),
        ("ACTION", Align::Left),
        ("JOBS", Align::Left),
        ("BY", Align::Left),
        ("STARTED AT", Align::Left),
        ("CHANGED", Align::Right),
        ("STATE", Align::Left),
    ]);
    for record in operations {
        table.row([
            record.id.to_string(),
            action(record),
            record.filter.clone(),
            record.actor.clone(),
            output::time(record.created_at),
            changed(record),
            state(record),
        ]);
    }
    let more = match operations.len() == limit {
        true => format!("\nthere may be older ones: --before {} is the next page\n", oldest.id),
        false => String::new(),
    };
    table.render() + &more
}

fn show(record: &OperationRecord) -> String {
    let rows = [
        ("operation", record.id.to_string()),
        ("action", action(record)),
        ("jobs", record.filter.clone()),
        ("by", record.actor.clone()),
        ("started at", output::time(record.created_at)),
        ("examined", wording::grouped(u64::try_from(record.examined).unwrap_or_default())),
        ("changed", changed(record)),
        ("state", state(record)),
    ];
    let text: String = rows.iter().map(|(name, value)| format!("{name:<12}{}\n", output::printable(value))).collect();
    match record.finished_at {
        Some(_) => text,
        None => format!("{text}\n{}\n", drive::advice(record.id)),
    }
}
