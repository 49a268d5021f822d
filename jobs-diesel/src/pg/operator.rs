//! The queries and commands of people.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::QueryResult;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::__private::acted;
use diesel_jobs_core::installation::check_words;
use diesel_jobs_core::storage::{
    ActOnce, Action, AfterKey, AuditRecord, Count, Explain, Failures, JobFilter, LimitKey, LimitStats, Once, Operated,
    OperationId, OperationRecord, Operations, Operator, Page, Paging, RateKey, ReadLimits, RequestKey, Scheduled,
    StorageResult, Surroundings, check_change, filter_for,
};
use diesel_jobs_core::{
    AttemptError, DeadLetters, Enqueued, JobEnd, JobId, JobRecord, JobState, NewJob, Progress, StorageError,
    WorkerRecord,
};

use super::act::{CHUNK, distinct};
use super::enqueue_connection::insert_many;
use super::queries::audited::Actor;
use super::queries::bring_forward::BringForwardQuery;
use super::queries::cancel_many::CancelManyQuery;
use super::queries::count_by_state::CountByStateQuery;
use super::queries::find::FindQuery;
use super::queries::limit_keys::{LimitKeyRow, LimitKeysQuery, LimitRow, LimitsQuery};
use super::queries::output::{EndRow, end, one_end};
use super::queries::progress::one_progress;
use super::queries::rate_keys::{RateKeyRow, RateKeysQuery};
use super::queries::thaw::ThawQuery;
use super::queries::{
    audited, change_schedule, dead_letter, failures, inspect, installation, limit_keys, operation, rate_keys, why,
};
use super::{PgStorage, run};
use crate::bounded::{FoundRow, Range, StateRow, by_state};
use crate::enqueued_by_operator;
use crate::operation::check_number;
use crate::schedule_checks::check_jobs;
use crate::stored_progress::{Columns, stored};

/// The number as a limit of a statement.
fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn checked(filter: &JobFilter) -> StorageResult<()> {
    filter.validate().map_err(StorageError::Config)
}

#[async_trait]
impl Operations for PgStorage {
    async fn step_operation(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        self.step(only, limit).await
    }
}

#[async_trait]
impl Explain for PgStorage {
    async fn surroundings(&self, id: JobId) -> StorageResult<Surroundings> {
        run!(self, "surroundings", conn => why::surroundings(conn, id))
    }
}

#[async_trait]
impl ReadLimits for PgStorage {
    async fn limits(&self) -> StorageResult<Vec<LimitStats>> {
        let rows: Vec<LimitRow> = run!(self, "limits", conn => RunQueryDsl::load(LimitsQuery, conn))?;
        Ok(rows.into_iter().map(limit_keys::limit).collect())
    }

    async fn limit_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<LimitKey>> {
        let query = || LimitKeysQuery::new(after.clone(), limit);
        let rows: Vec<LimitKeyRow> = run!(self, "limit_keys", conn => RunQueryDsl::load(query(), conn))?;
        Ok(rows.into_iter().map(limit_keys::key).collect())
    }

    async fn rate_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<RateKey>> {
        let query = || RateKeysQuery::new(after.clone(), limit);
        let rows: Vec<RateKeyRow> = run!(self, "rate_keys", conn => RunQueryDsl::load(query(), conn))?;
        Ok(rows.into_iter().filter_map(rate_keys::key).collect())
    }
}

#[async_trait]
impl ActOnce for PgStorage {
    async fn act_once(
        &self,
        key: &RequestKey,
        action: &Action,
        ids: &[JobId],
        actor: &str,
    ) -> StorageResult<Once<Vec<Operated>>> {
        check_words("the actor", actor).and_then(|()| action.validate()).map_err(StorageError::Config)?;
        check_number(ids.len())?;
        self.act_on(action, ids, actor, Some(key)).await
    }

    async fn start_operation_once(
        &self,
        key: &RequestKey,
        action: &Action,
        filter: &JobFilter,
        actor: &str,
    ) -> StorageResult<Once<OperationId>> {
        let filter = check_words("the actor", actor).and_then(|()| filter_for(action, filter));
        let filter = filter.map_err(StorageError::Config)?;
        run!(self, "start_operation", conn => operation::start_once(conn, key, action, &filter, actor))
    }

    async fn enqueue_for_schedule_once(
        &self,
        key: &RequestKey,
        name: &str,
        jobs: &[NewJob],
        action: &str,
        actor: &str,
    ) -> StorageResult<Once<Scheduled>> {
        check_change("schedule", name, actor, None)?;
        check_jobs(jobs)?;
        run!(self, "enqueue_for_schedule", conn => change_schedule::enqueue_once(conn, key, name, jobs, action, actor))
    }
}

#[async_trait]
impl Operator for PgStorage {
    async fn list(&self, filter: &JobFilter, paging: Paging) -> StorageResult<Page> {
        checked(filter)?;
        let range = Range::page(filter, paging);
        let Some(query) = FindQuery::new(filter, range, false).filter(|_| paging.limit > 0) else {
            return Ok(Page::default());
        };
        let rows: Vec<FoundRow> = run!(self, "find", conn => query.load(conn))?;
        let found = range.merge(rows);
        let searched_to = found.searched_to;
        let ids = found.newest_first();
        let mut jobs = run!(self, "list", conn => inspect::list(conn, &ids))?;
        // A job may have moved after its id was found.
        jobs.retain(|job| filter.takes(job.state));
        Ok(Page { jobs, searched_to: searched_to.map(JobId) })
    }

    async fn count(&self, filter: &JobFilter) -> StorageResult<Count> {
        // To return a row for each job would take longer than to count them.
        Ok(Count::total(self.count_by_state(filter).await?.into_iter().map(|(_, count)| count)))
    }

    async fn count_by_state(&self, filter: &JobFilter) -> StorageResult<Vec<(JobState, Count)>> {
        checked(filter)?;
        let Some(query) = CountByStateQuery::new(filter) else { return Ok(Vec::new()) };
        let sources = query.states();
        let rows: Vec<StateRow> = run!(self, "count_by_state", conn => query.load(conn))?;
        Ok(by_state(filter, &sources, &rows))
    }

    async fn act(&self, action: &Action, ids: &[JobId], actor: &str) -> StorageResult<Vec<Operated>> {
        check_words("the actor", actor).and_then(|()| action.validate()).map_err(StorageError::Config)?;
        // Without a key, nothing was done before.
        Ok(self.act_on(action, ids, actor, None).await?.now().unwrap_or_default())
    }

    async fn start_operation(&self, action: &Action, filter: &JobFilter, actor: &str) -> StorageResult<OperationId> {
        let filter = check_words("the actor", actor).and_then(|()| filter_for(action, filter));
        let filter = filter.map_err(StorageError::Config)?;
        run!(self, "start_operation", conn => operation::start(conn, action, &filter, actor))
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> StorageResult<Vec<OperationRecord>> {
        run!(self, "operations", conn => operation::operations(conn, before, most(limit)))
    }

    async fn operation(&self, id: OperationId) -> StorageResult<Option<OperationRecord>> {
        run!(self, "operation", conn => operation::operation(conn, id))
    }

    async fn cancel_operation(&self, id: OperationId, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        run!(self, "cancel_operation", conn => operation::cancel(conn, id, actor))
    }

    async fn failures(&self, limit: usize) -> StorageResult<Failures> {
        run!(self, "failures", conn => failures::failures(conn, limit))
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> StorageResult<Vec<AuditRecord>> {
        run!(self, "audit", conn => audited::audit(conn, before, most(limit)))
    }

    async fn enqueue(&self, jobs: &[NewJob], action: &'static str, actor: &str) -> StorageResult<Vec<Enqueued>> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        for job in jobs {
            job.validate().map_err(|problem| StorageError::Config(problem.to_string()))?;
        }
        run!(self, "enqueue", conn => enqueue(conn, jobs, action, actor))
    }

    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>> {
        let mut shown = Vec::new();
        for ids in distinct(ids).chunks(CHUNK) {
            shown.extend(run!(self, "show", conn => inspect::show(conn, ids))?);
        }
        Ok(shown)
    }

    async fn end(&self, id: JobId) -> StorageResult<Option<JobEnd>> {
        let rows: Vec<EndRow> = run!(self, "end", conn => one_end(id).load(conn))?;
        Ok(rows.into_iter().next().map(end))
    }

    async fn progress(&self, id: JobId) -> StorageResult<Option<Progress>> {
        let rows: Vec<Columns<DateTime<Utc>>> = run!(self, "progress", conn => one_progress(id).load(conn))?;
        Ok(rows.into_iter().next().and_then(stored))
    }

    async fn is_read_only_by_default(&self) -> StorageResult<bool> {
        installation::is_read_only_by_default(&self.connector).await
    }

    async fn dead_letters(&self) -> StorageResult<DeadLetters> {
        run!(self, "dead_letters", conn => dead_letter::dead_letters(conn))
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        run!(self, "workers", conn => inspect::workers(conn))
    }

    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool> {
        check_words("the actor", by).and_then(|()| check_words("the reason", reason)).map_err(StorageError::Config)?;
        run!(self, "freeze", conn => installation::freeze(conn, by, reason))
    }

    async fn thaw(&self, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        // There is only one row, but `get_result` would return it before the statement is committed.
        let thawed: Vec<i64> = run!(self, "thaw", conn => ThawQuery { actor: actor.to_owned() }.load(conn))?;
        Ok(thawed.iter().any(|rows| *rows > 0))
    }

    async fn set_environment(&self, environment: Option<&str>, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        run!(self, "set_environment", conn => installation::set_environment(conn, environment, actor))
    }

    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize, actor: &str) -> StorageResult<usize> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let cancelled: Vec<i64> = run!(self, "cancel_enqueued_before", conn =>
            CancelManyQuery::new(time, limit, Actor { name: actor, is_audited: true }).load(conn))?;
        let cancelled = cancelled.into_iter().map(|rows| usize::try_from(rows).unwrap_or_default()).sum();
        acted(Action::Cancel.as_str(), cancelled);
        Ok(cancelled)
    }

    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        let spans: Vec<f64> = run!(self, "bring_forward", conn => BringForwardQuery { queues, kinds }.load(conn))?;
        Ok(Duration::from_secs_f64(spans.into_iter().sum()))
    }

    async fn forget_missed_ticks(&self, actor: &str) -> StorageResult<()> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        run!(self, "forget_missed_ticks", conn => installation::forget_missed_ticks(conn, actor))
    }
}

/// Enqueues all of these jobs in one transaction.
async fn enqueue(
    conn: &mut AsyncPgConnection,
    jobs: &[NewJob],
    action: &'static str,
    actor: &str,
) -> QueryResult<Vec<Enqueued>> {
    let (jobs, actor) = (jobs.to_vec(), actor.to_owned());
    conn.transaction(async move |conn| {
        let enqueued = insert_many::<AsyncPgConnection>(conn, jobs).await?;
        audited::record(conn, &enqueued_by_operator::entry(&enqueued, action, actor)).await?;
        Ok(enqueued)
    })
    .await
}
