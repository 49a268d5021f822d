//! The checks of `doctor`: one file and one statement per check. Each statement returns a row per problem, with the
//! text and the exact repair, in which the server has quoted the names. The statements lock no rows. Some read whole
//! tables of waiting jobs, so they are for people and not for workers.

mod admission;
mod autovacuum;
mod claim_index;
mod collation;
mod connections;
mod crashes;
mod halted;
mod heartbeats;
mod indexes;
mod leases;
mod notifications;
mod oldest_held;
mod orphans;
mod pruner;
mod publications;
mod rights;
pub(crate) mod schema_objects;
mod sequences;
mod set_apart;
mod settings;
mod statistics;
mod transactions;
pub(crate) mod waiting;
mod wraparound;
pub(crate) mod zones;

pub(crate) use self::notifications::NOTIFICATIONS;
pub(crate) use self::sequences::CHECK as SEQUENCES;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Finding, Objectives, Severity};

/// A check that is one statement.
pub(crate) struct Check {
    /// The name of its findings.
    pub(crate) name: &'static str,
    /// Returns `severity`, `what` and `repair`. Numbers of seconds stand for `{oldest_due}` and `{transaction}`.
    sql: &'static str,
}

/// All checks of this kind.
pub(crate) const CHECKS: &[Check] = &[
    settings::CHECK,
    rights::CHECK,
    indexes::CHECK,
    publications::CHECK,
    SEQUENCES,
    set_apart::CHECK,
    leases::CHECK,
    oldest_held::CHECK,
    halted::CHECK,
    admission::CHECK,
    autovacuum::CHECK,
    transactions::CHECK,
    notifications::CHECK,
    wraparound::CHECK,
    connections::CHECK,
    claim_index::CHECK,
    statistics::CHECK,
    crashes::CHECK,
    heartbeats::CHECK,
    pruner::CHECK,
    orphans::CHECK,
];

/// The checks for PostgreSQL 15 and newer.
pub(crate) const CHECKS_FROM_15: &[Check] = &[collation::CHECK];

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    severity: String,
    #[diesel(sql_type = Text)]
    what: String,
    #[diesel(sql_type = Text)]
    repair: String,
}

pub(crate) async fn examine(
    conn: &mut AsyncPgConnection,
    check: &Check,
    objectives: Objectives,
) -> QueryResult<Vec<Finding>> {
    let seconds = |time: std::time::Duration| time.as_secs().min(1_000_000_000).to_string();
    let sql = check
        .sql
        .replace("{oldest_due}", &seconds(objectives.oldest_due))
        .replace("{transaction}", &seconds(objectives.transaction));
    let rows: Vec<Row> = sql_query(sql).load(conn).await?;
    let finding = |Row { severity, what, repair }| {
        let severity = match severity.as_str() {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            _ => Severity::Skipped,
        };
        Finding { check: check.name, severity, what, repair }
    };
    Ok(rows.into_iter().map(finding).collect())
}
