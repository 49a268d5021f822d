//! Examines a database. It uses a connection like those of handlers, so it sees the settings that applications get.

mod pooler;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::QueryResult;
use diesel::sql_types::Bool;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::health_checks::{self, Observed};
use diesel_jobs_core::storage::{
    Doctor, Finding, Objectives, Operator as _, Program, RuntimeSettings as _, Severity, Storage as _, StorageResult,
    StoredSchedules, WaitingJobs,
};
use diesel_jobs_core::{Freeze, StorageError};

use self::pooler::{POOLER, keeps_statements, listens, no_prepared_statements};
use super::not_connected::NotConnected;
use super::queries::declare_discard_rules;
use super::queries::doctor::{
    CHECKS, CHECKS_FROM_15, NOTIFICATIONS, SEQUENCES, examine, schema_objects::schema_objects, waiting::waiting,
    zones::other_rules,
};
use super::{PgStorage, drift, language, migrate, run, settings};
use crate::error::storage_error;
use crate::meaning::Meaning;

/// How long one check may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The advice for a check that has taken too long, or whose connection was lost.
const SLOW: &str =
    "run it again when the server has less to do; what slows it down may be among the other findings, and in its log";

diesel::define_sql_function! {
    /// The time of the server.
    fn clock_timestamp() -> Timestamptz;
}

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// The statement that removes a schedule.
fn removal(name: &str) -> String {
    format!("delete from jobs.schedule where name = '{}'", name.replace('\'', "''"))
}

/// The statement that lets a schedule go on from now.
fn restart(name: &str) -> String {
    format!("update jobs.schedule set last_tick = now() where name = '{}'", name.replace('\'', "''"))
}

/// A check that could not be made.
fn skipped(check: &'static str, problem: impl Into<Problem>) -> Finding {
    let problem = problem.into();
    let is_unavailable = matches!(problem.downcast_ref(), Some(StorageError::Unavailable(_)));
    let meaning = problem.downcast_ref().map(Meaning::of);
    let repair = match meaning.or_else(|| problem.downcast_ref().and_then(NotConnected::meaning)) {
        Some(Meaning::MixedUp) => return no_prepared_statements(&problem),
        Some(Meaning::Transient) => SLOW,
        _ if is_unavailable => SLOW,
        _ => "run it as a role with more rights, such as the owner of the schema",
    };
    Finding::skipped(check, format!("this check could not be made: {problem}"), repair)
}

/// A check that has taken too long.
fn timed_out(check: &'static str) -> Finding {
    Finding::skipped(check, format!("this check could not be made: it took longer than {LIMIT:?}"), SLOW)
}

/// Runs a check in a transaction that has a time limit of its own: the database or the role may have a shorter one.
async fn limited<T>(
    conn: &mut AsyncPgConnection,
    check: impl AsyncFnOnce(&mut AsyncPgConnection) -> QueryResult<T>,
) -> QueryResult<T> {
    let begin = format!(
        "begin isolation level read committed; set local lock_timeout = 0; set local statement_timeout = {}",
        LIMIT.as_millis()
    );
    AnsiTransactionManager::begin_transaction_sql(conn, &begin).await?;
    let answer = check(conn).await;
    settings::end(conn, answer).await
}

#[async_trait]
impl Doctor for PgStorage {
    async fn examine_connection(&self) -> StorageResult<Option<Finding>> {
        let problem = match self.own_connector.connect_to_listen().await {
            // The other checks meet any other problem again.
            Ok(mut conn) => {
                match tokio::time::timeout(self.stopwatch().limit(LIMIT), keeps_statements(self, &mut conn)).await {
                    Ok(Err(problem)) => problem,
                    _ => return Ok(None),
                }
            }
            Err(problem) if problem.meaning() == Some(Meaning::MixedUp) => problem.into(),
            Err(problem) => return Err(problem.into()),
        };
        Ok(Some(skipped("connection", problem)).filter(|finding| finding.check == POOLER))
    }

    async fn examine(&self, objectives: Objectives, program: Option<&Program>) -> StorageResult<Vec<Finding>> {
        let limit = self.stopwatch().limit(LIMIT);
        if let Err(problem) = run!(self, "check_server", conn => migrate::check_server(conn))? {
            return Ok(vec![Finding::error(
                "server",
                problem.to_string(),
                "create another database, as the message says",
            )]);
        }
        let applied = run!(self, "check_schema", conn => migrate::applied(conn))?;
        if let Some(finding) = migrate::finding(&applied) {
            return Ok(vec![finding]);
        }
        let mut findings = Vec::new();
        let mut conn = self.connector.connect().await?;
        let installation = self.installation().await?;
        findings.extend(installation.standby.then(standby));
        let is_frozen = installation.frozen.is_some();
        match tokio::time::timeout(limit, jobs(self, &mut conn, installation.frozen, objectives, program)).await {
            Ok(Ok(found)) => findings.extend(found),
            Ok(Err(problem)) => findings.push(skipped("unserved_queue", problem)),
            Err(_) => {
                findings.push(timed_out("unserved_queue"));
                conn = self.connector.connect().await?;
            }
        }
        let from_15 =
            if limited(&mut conn, is_15_or_newer).await.map_err(storage_error)? { CHECKS_FROM_15 } else { &[] };
        for check in CHECKS.iter().chain(from_15) {
            let examined = limited(&mut conn, async |conn| examine(conn, check, objectives).await);
            match tokio::time::timeout(limit, examined).await {
                Ok(Ok(found)) => findings.extend(found),
                Ok(Err(problem)) => findings.push(skipped(check.name, problem)),
                Err(_) => {
                    findings.push(timed_out(check.name));
                    conn = self.connector.connect().await?;
                }
            }
        }
        match limited(&mut conn, schema_objects).await {
            Ok(found) => findings.extend(drift::drift(&found)),
            Err(problem) => findings.push(skipped("drift", problem)),
        }
        match limited(&mut conn, clock).await {
            Ok(found) => findings.extend(found),
            Err(problem) => findings.push(skipped("clock_skew", problem)),
        }
        match schedules(self, program, is_frozen).await {
            Ok(found) => findings.extend(found),
            Err(problem) => findings.push(skipped("schedule", problem)),
        }
        match discard_rules(self).await {
            Ok(found) => findings.extend(found),
            Err(problem) => findings.push(skipped("on_discarded_declared_otherwise", problem)),
        }
        match zones(self, &mut conn).await {
            Ok(found) => findings.extend(found),
            Err(problem) => findings.push(skipped("zone_rules", problem)),
        }
        // Workers are not notified while that queue is well filled, and when it is full no session can notify. On a
        // standby nobody can listen.
        if !installation.standby
            && !findings.iter().any(|one| one.check == NOTIFICATIONS && one.severity == Severity::Error)
        {
            match listens(self, &mut conn).await {
                Ok(found) => findings.extend(found),
                Err(problem) => findings.push(skipped("listen", problem)),
            }
        }
        match run!(self, "language", conn => language::examine(conn)) {
            Ok(found) => findings.extend(found),
            Err(problem) => findings.push(skipped("language", problem)),
        }
        findings.sort_by_key(|finding| finding.severity);
        // Each check may have met it.
        let mut is_first = true;
        findings.retain(|one| one.check != POOLER || std::mem::take(&mut is_first));
        Ok(findings)
    }

    async fn waiting(&self) -> StorageResult<Vec<WaitingJobs>> {
        run!(self, "waiting", conn => waiting(conn))
    }
}

impl PgStorage {
    /// Logs which sequences are behind. `doctor` says why if that cannot be seen.
    pub(super) async fn warn_of_sequences(&self) -> StorageResult<()> {
        let objectives = Objectives::default();
        let found = run!(self, "sequences", conn => examine(conn, &SEQUENCES, objectives))?;
        for Finding { what, repair, .. } in found.into_iter().filter(|one| one.severity != Severity::Skipped) {
            tracing::warn!(target: "diesel_jobs", "{what}. To repair it: {repair}");
        }
        Ok(())
    }
}

fn standby() -> Finding {
    Finding::error(
        "standby",
        "the server is a standby, which takes no writes: nothing is claimed there",
        "set DATABASE_URL to the primary, or list all hosts and add target_session_attrs=read-write",
    )
}

/// The waiting jobs that nobody runs.
async fn jobs(
    storage: &PgStorage,
    conn: &mut AsyncPgConnection,
    frozen: Option<Freeze>,
    objectives: Objectives,
    program: Option<&Program>,
) -> Result<Vec<Finding>, Problem> {
    let (jobs, now) = limited(conn, async |conn| {
        let now: DateTime<Utc> = diesel::select(clock_timestamp()).get_result(conn).await?;
        Ok((waiting(conn).await?, now))
    })
    .await?;
    let (workers, queues, kinds) = (storage.workers().await?, storage.queues().await?, storage.kinds().await?);
    let found = Observed { jobs, workers, queues, kinds, frozen };
    Ok(health_checks::waiting(&found, objectives.oldest_due, program, now))
}

/// The schedules that do not tick.
async fn schedules(storage: &PgStorage, program: Option<&Program>, is_frozen: bool) -> StorageResult<Vec<Finding>> {
    let StoredSchedules { all, now, .. } = storage.schedules(&[]).await?;
    Ok(health_checks::schedules(&all, &storage.workers().await?, program, now, is_frozen, removal, restart))
}

/// What is enqueued for discarded jobs otherwise than a live worker declares it.
async fn discard_rules(storage: &PgStorage) -> StorageResult<Vec<Finding>> {
    let rules = run!(storage, "declare_discard_rules", conn => declare_discard_rules::rules(conn))?;
    Ok(health_checks::discard_rules(&rules, &storage.workers().await?))
}

/// The time zones of schedules for which the server has other rules.
async fn zones(storage: &PgStorage, conn: &mut AsyncPgConnection) -> StorageResult<Vec<Finding>> {
    let StoredSchedules { all, now, .. } = storage.schedules(&[]).await?;
    let ours = health_checks::zone_offsets(&all, now);
    Ok(health_checks::zones(&limited(conn, async |conn| other_rules(conn, &ours).await).await.map_err(storage_error)?))
}

async fn is_15_or_newer(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    let is_newer = diesel::dsl::sql::<Bool>("current_setting('server_version_num')::integer >= 150000");
    diesel::select(is_newer).get_result(conn).await
}

async fn clock(conn: &mut AsyncPgConnection) -> QueryResult<Option<Finding>> {
    let before = Utc::now();
    let database: DateTime<Utc> = diesel::select(clock_timestamp()).get_result(conn).await?;
    Ok(health_checks::clocks(before, database, Utc::now()))
}
