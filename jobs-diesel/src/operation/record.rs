//! The texts of an operation, and its entries in the audit.

use diesel::QueryResult;
use diesel::result::Error;
use diesel_jobs_core::storage::{Action, AuditEntry, JobFilter, Operated, OperationId, OperationRecord, RequestKey};
use serde_json::{Value, json};

/// The longest text about problems, in bytes.
const LONGEST_PROBLEM: usize = 2000;

/// The textual form of a stored filter. One that cannot be read stays as it is.
pub(crate) fn filter(stored: &str) -> String {
    JobFilter::from_json(stored).map_or_else(|_| stored.to_owned(), |filter| filter.to_string())
}

/// The filter as it is stored.
pub(crate) fn json(filter: &JobFilter) -> QueryResult<String> {
    serde_json::to_string(filter).map_err(|problem| Error::SerializationError(problem.into()))
}

/// The entry for an action on these jobs. `None` if there are none.
pub(crate) fn acted(action: &Action, mut jobs: Vec<i64>, actor: &str) -> Option<AuditEntry> {
    jobs.sort_unstable();
    let target = match jobs.as_slice() {
        [] => return None,
        [one] => format!("job {one}"),
        many => format!("{} jobs", many.len()),
    };
    let mut detail = json!({ "ids": jobs });
    if let Some(argument) = action.argument() {
        detail["argument"] = argument.into();
    }
    Some(AuditEntry { actor: actor.to_owned(), action: action.as_str(), target, detail })
}

/// The entry for an action on these jobs that a request with a key asked for, including the ids of jobs that were
/// enqueued again.
pub(crate) fn acted_once(
    key: &RequestKey,
    action: &Action,
    changed: &[(i64, Operated)],
    actor: &str,
) -> Option<AuditEntry> {
    let entry = acted(action, changed.iter().map(|(id, _)| *id).collect(), actor)?;
    let enqueued = changed.iter().filter_map(|(_, answer)| match answer {
        Operated::Enqueued(new) => Some(new.0),
        _ => None,
    });
    let enqueued: Vec<i64> = enqueued.collect();
    let mut detail = key.mark(entry.detail);
    if !enqueued.is_empty() {
        detail["enqueued"] = enqueued.into();
    }
    Some(AuditEntry { detail, ..entry })
}

/// The entry for an operation that begins.
pub(crate) fn started(
    id: i64,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
    key: Option<&RequestKey>,
) -> AuditEntry {
    let detail = json!({ "event": "started", "filter": filter.to_string(), "argument": action.argument() });
    let detail = marked(detail, key);
    AuditEntry { actor: actor.to_owned(), action: action.as_str(), target: target(OperationId(id)), detail }
}

/// The details of an entry, with the key of the request if it has one.
pub(crate) fn marked(detail: Value, key: Option<&RequestKey>) -> Value {
    match key {
        Some(key) => key.mark(detail),
        None => detail,
    }
}

/// The entry for an operation that has ended by itself.
pub(crate) fn ended(record: &OperationRecord) -> AuditEntry {
    let detail = json!({ "event": "ended", "changed": record.changed, "problem": record.problem });
    AuditEntry { actor: record.actor.clone(), action: verb(&record.action), target: target(record.id), detail }
}

/// The entry for an operation that an operator has cancelled.
pub(crate) fn cancelled(id: OperationId, actor: String) -> AuditEntry {
    AuditEntry { actor, action: "cancel", target: target(id), detail: Value::Null }
}

fn target(id: OperationId) -> String {
    format!("operation {id}")
}

/// The verb of a stored action. A row that a person has changed by hand may have another text.
fn verb(action: &str) -> &'static str {
    const VERBS: [&str; 9] =
        ["retry", "run_now", "reschedule", "cancel", "delete", "discard", "reprioritise", "move", "rerun"];
    VERBS.into_iter().find(|verb| *verb == action).unwrap_or("operation")
}

/// Notes jobs that were left out, after what was noted before.
pub(crate) fn left_out(record: &mut OperationRecord, jobs: &[i64], why: &str) {
    let ids: Vec<String> = jobs.iter().take(10).map(i64::to_string).collect();
    let more = if jobs.len() > ids.len() { format!(" and {} more", jobs.len() - ids.len()) } else { String::new() };
    let noun = if jobs.len() == 1 { "job" } else { "jobs" };
    let note = format!("left out {noun} {}{more}: {why}", ids.join(", "));
    let mut problem = match record.problem.take() {
        Some(before) => format!("{before}; {note}"),
        None => note,
    };
    problem.truncate(problem.floor_char_boundary(LONGEST_PROBLEM));
    record.problem = Some(problem);
}
