//! Examines a file. The expected schema is that of an empty database in memory after the migrations.

use std::sync::Arc;

use async_trait::async_trait;
use diesel::connection::Connection as _;
use diesel::{QueryResult, RunQueryDsl as _, SqliteConnection};
use diesel_jobs_core::health_checks::{self, Observed};
use diesel_jobs_core::storage::{Doctor, Finding, Objectives, Program, StorageResult, WaitingJobs};

use crate::sqlite::connect::LONGEST_LOG;
use crate::sqlite::operator::SqliteOperator;
use crate::sqlite::queries::doctor::{
    CHECKS, examine,
    schema_objects::{SchemaObject, schema_objects},
    waiting::waiting,
};
use crate::sqlite::queries::{installation, on_discarded, pause, schedule, worker};
use crate::sqlite::time::{NOW, Now};
use crate::sqlite::types::Instant;
use crate::sqlite::{file_system, migrate};

#[async_trait]
impl Doctor for SqliteOperator {
    async fn examine(&self, objectives: Objectives, program: Option<&Program>) -> StorageResult<Vec<Finding>> {
        if let Some(finding) = self.reader.run(migrate::finding).await? {
            return Ok(vec![finding]);
        }
        let (file, program): (Arc<str>, _) = (self.file.clone(), program.cloned());
        // Not in one transaction: in a damaged file its commit may fail, and all findings would be lost.
        let mut findings = self.reader.run(move |conn| Ok(all(conn, &file, objectives, program.as_ref()))).await?;
        findings.sort_by_key(|finding| finding.severity);
        Ok(findings)
    }

    async fn waiting(&self) -> StorageResult<Vec<WaitingJobs>> {
        self.reader.read(waiting).await
    }
}

fn all(conn: &mut SqliteConnection, file: &str, objectives: Objectives, program: Option<&Program>) -> Vec<Finding> {
    let mut findings = Vec::new();
    add(&mut findings, "unserved_queue", jobs(conn, objectives, program));
    for check in CHECKS {
        add(&mut findings, check.name, examine(conn, check, objectives));
    }
    let found = schema_objects(conn);
    add(&mut findings, "drift", found.and_then(|found| Ok(drift(&expected()?, &found))));
    add(&mut findings, "schedule", schedules(conn, program));
    add(&mut findings, "on_discarded_declared_otherwise", discard_rules(conn));
    findings.extend(log_size(file));
    findings.extend(file_system(file));
    findings
}

/// The waiting jobs that nobody runs.
fn jobs(conn: &mut SqliteConnection, objectives: Objectives, program: Option<&Program>) -> QueryResult<Vec<Finding>> {
    let found = Observed {
        jobs: waiting(conn)?,
        workers: worker::list(conn)?,
        queues: pause::queues(conn)?,
        kinds: pause::kinds(conn)?,
        frozen: installation::installation(conn)?.frozen,
    };
    let now: Instant = diesel::select(Now).get_result(conn)?;
    Ok(health_checks::waiting(&found, objectives.oldest_due, program, now.0))
}

/// The schedules that do not tick.
fn schedules(conn: &mut SqliteConnection, program: Option<&Program>) -> QueryResult<Vec<Finding>> {
    let (all, now) = schedule::schedules(conn)?;
    let is_frozen = installation::is_frozen(conn)?;
    Ok(health_checks::schedules(&all, &worker::list(conn)?, program, now, is_frozen, removal, restart))
}

/// What is enqueued for discarded jobs otherwise than a live worker declares it.
fn discard_rules(conn: &mut SqliteConnection) -> QueryResult<Vec<Finding>> {
    Ok(health_checks::discard_rules(&on_discarded::rules(conn)?, &worker::list(conn)?))
}

/// The statement that removes a schedule.
fn removal(name: &str) -> String {
    format!("delete from jobs_schedule where name = '{}'", name.replace('\'', "''"))
}

/// The statement that lets a schedule go on from now.
fn restart(name: &str) -> String {
    format!("update jobs_schedule set last_tick = {NOW} where name = '{}'", name.replace('\'', "''"))
}

/// Adds what a check has found, or that it could not be made.
fn add(findings: &mut Vec<Finding>, check: &'static str, found: QueryResult<Vec<Finding>>) {
    match found {
        Ok(found) => findings.extend(found),
        Err(problem) => findings.push(Finding::skipped(
            check,
            format!("this check could not be made: {problem}"),
            "try again while fewer processes write",
        )),
    }
}

fn expected() -> QueryResult<Vec<SchemaObject>> {
    let failed = |problem: String| diesel::result::Error::QueryBuilderError(problem.into());
    let mut memory = SqliteConnection::establish(":memory:").map_err(|error| failed(error.to_string()))?;
    migrate::up(&mut memory).map_err(|error| failed(error.to_string()))?;
    schema_objects(&mut memory)
}

/// The objects that are missing, different or not ours.
fn drift(expected: &[SchemaObject], found: &[SchemaObject]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for SchemaObject { kind, name, definition } in expected {
        match found.iter().find(|other| other.name == *name) {
            None => findings.push(Finding::error("drift", format!("the {kind} {name} is missing"), definition)),
            Some(other) if words(&other.definition) != words(definition) => {
                let what = format!("the {kind} {name} was changed: {}", other.definition);
                let repair = if kind == "table" {
                    format!("make it as the migration does: {definition}")
                } else {
                    format!("drop {kind} {name}; {definition}")
                };
                findings.push(Finding::error("drift", what, repair));
            }
            Some(_) => {}
        }
    }
    for SchemaObject { kind, name, .. } in found {
        if !expected.iter().any(|other| other.name == *name) {
            let what = format!("the {kind} {name} is not made by the migrations of this version");
            findings.push(Finding::warning("drift", what, format!("drop {kind} {name}")));
        }
    }
    findings
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Every write of ours cuts a longer log, unless somebody still reads it.
fn log_size(file: &str) -> Option<Finding> {
    let bytes = std::fs::metadata(format!("{file}-wal")).ok()?.len();
    (bytes > LONGEST_LOG).then(|| {
        Finding::warning(
            "wal_size",
            format!(
                "the write-ahead log has {} MiB: a reader that is open for long keeps it from being emptied",
                bytes >> 20
            ),
            "end long readers, then: pragma wal_checkpoint(truncate)",
        )
    })
}

fn file_system(file: &str) -> Option<Finding> {
    file_system::foreign(file).map(|kind| {
        Finding::error(
            "file_system",
            format!("the file is on a file system ({kind}) that is not known to be on this machine; elsewhere locks may fail and destroy it"),
            "move the file to a disk of this machine, or use PostgreSQL",
        )
    })
}
