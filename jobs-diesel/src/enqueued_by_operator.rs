//! What the audit says of jobs that an operator has enqueued.

use diesel_jobs_core::Enqueued;
use diesel_jobs_core::storage::AuditEntry;
use serde_json::json;

/// The entry about these jobs. `new` says how many were inserted: the others are jobs that had the same unique key.
pub(crate) fn entry(jobs: &[Enqueued], action: &'static str, actor: String) -> AuditEntry {
    let new = jobs.iter().filter(|job| Enqueued::is_new(**job)).count();
    let detail = json!({ "first": jobs.first(), "last": jobs.last(), "new": new });
    let target = match jobs {
        [job] => format!("job {job}"),
        jobs => format!("{} jobs", jobs.len()),
    };
    AuditEntry { actor, action, target, detail }
}
