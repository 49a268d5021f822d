//! `audit`: who did what, and when.

use diesel_jobs_core::storage::AuditRecord;

use super::app::App;
use super::command_args::PageArgs;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

/// The most characters of the detail in the table.
const SHOWN: usize = 120;

pub(super) async fn audit(app: &App<'_>, args: &PageArgs) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let entries = database.operator.audit(args.before, args.limit).await?;
    output::print(app.json, &entries, || human(&entries, args.limit))?;
    Ok(Exit::Fine)
}

fn human(entries: &[AuditRecord], limit: usize) -> String {
    let Some(oldest) = entries.last() else { return "no operator has changed anything\n".to_owned() };
    let mut table = Table::new(&[
        ("AT", Align::Left),
        ("WHO", Align::Left),
        ("DID", Align::Left),
        ("TO", Align::Left),
        ("DETAIL", Align::Left),
    ]);
    for AuditRecord { at, actor, action, target, detail, .. } in entries {
        let detail = detail.as_ref().filter(|detail| !detail.is_null()).map(ToString::to_string).unwrap_or_default();
        let detail = output::start_of(&detail, SHOWN);
        table.row([output::time(*at), actor.clone(), action.clone(), target.clone(), detail]);
    }
    let more = match entries.len() == limit {
        true => format!("\nthere may be older entries: --before {} is the next page\n", oldest.id),
        false => String::new(),
    };
    table.render() + &more
}
