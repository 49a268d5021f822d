//! The checks of `doctor`: one file and one statement per check. Each statement returns a row per problem, with the
//! text and the exact repair. They only read.

mod admission;
mod crashes;
mod free_pages;
mod halted;
mod heartbeats;
mod integrity;
mod journal;
mod leases;
mod oldest_held;
mod orphans;
mod pruner;
pub(crate) mod schema_objects;
pub(crate) mod waiting;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_jobs_core::storage::{Finding, Objectives, Severity};

/// A check that is one statement.
pub(crate) struct Check {
    /// The name of its findings.
    pub(crate) name: &'static str,
    /// Returns `severity`, `what` and `repair`. A number of seconds stands for `{oldest_due}`.
    sql: &'static str,
}

/// All checks of this kind.
pub(crate) const CHECKS: &[Check] = &[
    journal::CHECK,
    integrity::CHECK,
    free_pages::CHECK,
    leases::CHECK,
    oldest_held::CHECK,
    halted::CHECK,
    admission::CHECK,
    crashes::CHECK,
    heartbeats::CHECK,
    pruner::CHECK,
    orphans::CHECK,
];

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    severity: String,
    #[diesel(sql_type = Text)]
    what: String,
    #[diesel(sql_type = Text)]
    repair: String,
}

pub(crate) fn examine(conn: &mut SqliteConnection, check: &Check, objectives: Objectives) -> QueryResult<Vec<Finding>> {
    let seconds = objectives.oldest_due.as_secs().min(1_000_000_000).to_string();
    let rows: Vec<Row> = sql_query(check.sql.replace("{oldest_due}", &seconds)).load(conn)?;
    let finding = |Row { severity, what, repair }| {
        let severity = if severity == "error" { Severity::Error } else { Severity::Warning };
        Finding { check: check.name, severity, what, repair }
    };
    Ok(rows.into_iter().map(finding).collect())
}
