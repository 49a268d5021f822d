//! Actions on many jobs with their progress, and what operators did.

use askama::Template;
use diesel_jobs_core::storage::{AuditRecord, OperationRecord};
use serde_json::Value;

use super::{Visit, render};
use crate::act::REQUEST;
use crate::failure::{Failure, Page};
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// How many rows a page shows.
const SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "operations.html")]
struct OperationsPage {
    shell: Shell,
    operations: Vec<OperationRecord>,
    audit: Vec<AuditRecord>,
    /// The address of the older entries.
    older: Option<String>,
}

/// How far an operation is, in per cent. An operation goes from the lowest to the highest id, so the share of the ids
/// is known.
fn share(operation: &OperationRecord) -> i64 {
    if operation.finished_at.is_some() {
        return 100;
    }
    (operation.next_id.0.saturating_mul(100) / operation.last_id.0.max(1)).clamp(0, 99)
}

fn state(operation: &OperationRecord) -> (&'static str, &'static str) {
    match operation {
        OperationRecord { cancelled_by: Some(_), .. } => ("cancelled", "cancelled"),
        OperationRecord { finished_at: Some(_), .. } => ("completed", "done"),
        _ => ("running", "under way"),
    }
}

/// The other details of an entry of the audit, on one line.
fn detail(record: &AuditRecord) -> String {
    const LONGEST: usize = 200;
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = match &record.detail {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(fields)) => {
            // The key of a form says nothing to people.
            let fields = fields.iter().filter(|(name, value)| !value.is_null() && *name != REQUEST);
            fields.map(|(name, value)| format!("{name}: {}", shown(value))).collect::<Vec<_>>().join(", ")
        }
        Some(other) => shown(other),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(crate) async fn operations(visit: Visit) -> Page {
    let mut before = None;
    for (name, value) in visit.pairs() {
        before =
            match name.as_str() {
                "before" => Some(value.parse::<i64>().map_err(|_| {
                    Failure::Malformed(format!("{value:?} is not the id of an entry: ids are numbers."))
                })?),
                name => return Err(Failure::Malformed(format!("There is no filter {name:?}. The filter is: before."))),
            };
    }
    let shell = visit.shell(Place::Operations, "Operations").await?.live("/operations", &visit.query);
    let operator = visit.site.operator();
    let operations = if before.is_none() { operator.operations(None, SHOWN).await? } else { Vec::new() };
    let mut audit = operator.audit(before, SHOWN + 1).await?;
    let more = audit.len() > SHOWN;
    audit.truncate(SHOWN);
    let older = audit.last().filter(|_| more).map(|last| shell.one("/operations", "before", &last.id.to_string()));
    render(&OperationsPage { shell, operations, audit, older })
}
