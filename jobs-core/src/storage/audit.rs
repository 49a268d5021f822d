//! What operators did.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

/// The actor of calls that name none.
pub const UNNAMED_OPERATOR: &str = "an operator";

/// Why a job was discarded by an operator who gave no name. All jobs that operators discard have its fingerprint.
pub const DISCARDED: &str = "discarded by an operator";

/// One thing that an operator did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditRecord {
    /// Later entries have higher ids.
    pub id: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: String,
    /// The verb: retry, cancel, pause, ..
    pub action: String,
    /// What it was done to: `job 7`, `12 jobs`, `queue mail`, `operation 3`, ..
    pub target: String,
    /// More about it, such as the ids of the jobs.
    pub detail: Option<Value>,
}

/// What is written to the audit.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    /// Who.
    pub actor: String,
    /// The verb.
    pub action: &'static str,
    /// What it was done to.
    pub target: String,
    /// More about it. `Null` for nothing.
    pub detail: Value,
}
