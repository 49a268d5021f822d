//! The texts of an operation, and its entries in the audit.

use diesel::QueryResult;
use diesel::result::Error;
use diesel_jobs_core::storage::{AuditEntry, JobFilter, OperationId, OperationRecord};
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
    const VERBS: [&str; 8] = ["retry", "run_now", "cancel", "delete", "discard", "reprioritise", "move", "rerun"];
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
