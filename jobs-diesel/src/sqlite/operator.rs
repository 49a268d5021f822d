//! The operations of operators on SQLite.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::{QueryResult, SqliteConnection};
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

use crate::bounded::Range;
use crate::enqueued_by_operator;
use crate::operation::check_number;
use crate::schedule_checks::check_jobs;
use crate::sqlite::queries::{
    act, audited, change_schedule, count_by_state, failure_groups, find, inspect, installation, limit_keys, operate,
    operation, output, progress, rate_keys, why, worker,
};
use crate::sqlite::shared_connection::SharedConnection;
use crate::sqlite::sync_connection::insert_jobs;

/// The connections for the operations of operators.
pub(super) struct SqliteOperator {
    pub(super) writer: Arc<SharedConnection>,
    pub(super) reader: Arc<SharedConnection>,
    pub(super) file: Arc<str>,
}

#[async_trait]
impl Explain for SqliteOperator {
    async fn surroundings(&self, id: JobId) -> StorageResult<Surroundings> {
        self.reader.read(move |conn| why::surroundings(conn, id)).await
    }
}

#[async_trait]
impl ReadLimits for SqliteOperator {
    async fn limits(&self) -> StorageResult<Vec<LimitStats>> {
        self.reader.read(limit_keys::limits).await
    }

    async fn limit_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<LimitKey>> {
        self.reader.read(move |conn| limit_keys::limit_keys(conn, after.clone(), limit)).await
    }

    async fn rate_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<RateKey>> {
        self.reader.read(move |conn| rate_keys::rate_keys(conn, after.clone(), limit)).await
    }
}

/// Jobs per transaction of an action.
const CHUNK: usize = 1000;

/// The number as a limit of a statement.
fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// One step of an operation. While there is none, this takes no write lock.
pub(super) async fn step(
    reader: &Arc<SharedConnection>,
    writer: &Arc<SharedConnection>,
    only: Option<OperationId>,
    limit: usize,
) -> StorageResult<Option<OperationRecord>> {
    if !reader.read(move |conn| operation::is_open(conn, only)).await? {
        return Ok(None);
    }
    let step = writer.write(move |conn| operation::step(conn, only, limit)).await?;
    Ok(step.map(|(record, changed)| {
        acted(&record.action, changed);
        record
    }))
}

/// Enqueues all of these jobs in one transaction.
fn enqueue(
    conn: &mut SqliteConnection,
    jobs: &[NewJob],
    action: &'static str,
    actor: String,
) -> QueryResult<Vec<Enqueued>> {
    let enqueued = insert_jobs(conn, jobs.to_vec())?;
    audited::record(conn, &enqueued_by_operator::entry(&enqueued, action, actor))?;
    Ok(enqueued)
}

#[async_trait]
impl Operations for SqliteOperator {
    async fn step_operation(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        step(&self.reader, &self.writer, only, limit).await
    }
}

#[async_trait]
impl ActOnce for SqliteOperator {
    async fn act_once(
        &self,
        key: &RequestKey,
        action: &Action,
        ids: &[JobId],
        actor: &str,
    ) -> StorageResult<Once<Vec<Operated>>> {
        check_words("the actor", actor).and_then(|()| action.validate()).map_err(StorageError::Config)?;
        check_number(ids.len())?;
        let mut each: Vec<JobId> = ids.to_vec();
        each.sort_unstable();
        each.dedup();
        let (key, what, some, actor) = (*key, action.clone(), each.clone(), actor.to_owned());
        let done = self.writer.write(move |conn| act::act_once(conn, &key, &what, &some, &actor)).await?;
        let answers = match done {
            Once::Now(answers) => answers,
            Once::Before(entry) => return Ok(Once::Before(entry)),
        };
        acted(action.as_str(), answers.iter().filter(|answer| answer.has_changed()).count());
        let answers: HashMap<JobId, Operated> = each.into_iter().zip(answers).collect();
        Ok(Once::Now(ids.iter().map(|id| answers.get(id).copied().unwrap_or(Operated::NotFound)).collect()))
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
        let (key, action, actor) = (*key, action.clone(), actor.to_owned());
        self.writer.write(move |conn| operation::start_once(conn, &key, &action, &filter, &actor)).await
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
        let (key, name, jobs) = (*key, name.to_owned(), jobs.to_vec());
        let (action, actor) = (action.to_owned(), actor.to_owned());
        self.writer.write(move |conn| change_schedule::enqueue_once(conn, &key, &name, &jobs, &action, &actor)).await
    }
}

#[async_trait]
impl Operator for SqliteOperator {
    async fn list(&self, filter: &JobFilter, paging: Paging) -> StorageResult<Page> {
        filter.validate().map_err(StorageError::Config)?;
        if paging.limit == 0 {
            return Ok(Page::default());
        }
        let (filter, range) = (filter.clone(), Range::page(filter, paging));
        let page = move |conn: &mut SqliteConnection| {
            let found = range.merge(find::find(conn, &filter, range, false)?);
            let searched_to = found.searched_to;
            Ok(Page { jobs: inspect::list(conn, &found.newest_first())?, searched_to: searched_to.map(JobId) })
        };
        self.reader.read(page).await
    }

    async fn count(&self, filter: &JobFilter) -> StorageResult<Count> {
        filter.validate().map_err(StorageError::Config)?;
        let (filter, range) = (filter.clone(), Range::count(filter));
        let count = move |conn: &mut SqliteConnection| Ok(Range::number(&find::find(conn, &filter, range, false)?));
        self.reader.read(count).await
    }

    async fn count_by_state(&self, filter: &JobFilter) -> StorageResult<Vec<(JobState, Count)>> {
        filter.validate().map_err(StorageError::Config)?;
        let filter = filter.clone();
        self.reader.read(move |conn| count_by_state::count_by_state(conn, &filter)).await
    }

    async fn act(&self, action: &Action, ids: &[JobId], actor: &str) -> StorageResult<Vec<Operated>> {
        check_words("the actor", actor).and_then(|()| action.validate()).map_err(StorageError::Config)?;
        let mut answers: HashMap<JobId, Operated> = HashMap::with_capacity(ids.len());
        let mut open: Vec<JobId> = ids.to_vec();
        open.sort_unstable();
        open.dedup();
        for chunk in open.chunks(CHUNK) {
            let (action, some, actor) = (action.clone(), chunk.to_vec(), actor.to_owned());
            let of_chunk = self.writer.write(move |conn| act::act(conn, &action, &some, &actor)).await?;
            answers.extend(chunk.iter().copied().zip(of_chunk));
        }
        acted(action.as_str(), answers.values().filter(|answer| answer.has_changed()).count());
        Ok(ids.iter().map(|id| answers.get(id).copied().unwrap_or(Operated::NotFound)).collect())
    }

    async fn start_operation(&self, action: &Action, filter: &JobFilter, actor: &str) -> StorageResult<OperationId> {
        let filter = check_words("the actor", actor).and_then(|()| filter_for(action, filter));
        let (filter, action, actor) = (filter.map_err(StorageError::Config)?, action.clone(), actor.to_owned());
        self.writer.write(move |conn| operation::start(conn, &action, &filter, &actor, None)).await
    }

    async fn operations(&self, before: Option<OperationId>, limit: usize) -> StorageResult<Vec<OperationRecord>> {
        self.reader.read(move |conn| operation::operations(conn, before, most(limit))).await
    }

    async fn operation(&self, id: OperationId) -> StorageResult<Option<OperationRecord>> {
        self.reader.read(move |conn| operation::operation(conn, id)).await
    }

    async fn cancel_operation(&self, id: OperationId, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| operation::cancel(conn, id, &actor)).await
    }

    async fn failures(&self, limit: usize) -> StorageResult<Failures> {
        self.reader.read(move |conn| failure_groups::failures(conn, limit)).await
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> StorageResult<Vec<AuditRecord>> {
        self.reader.read(move |conn| audited::audit(conn, before, most(limit))).await
    }

    async fn enqueue(&self, jobs: &[NewJob], action: &'static str, actor: &str) -> StorageResult<Vec<Enqueued>> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        for job in jobs {
            job.validate().map_err(|problem| StorageError::Config(problem.to_string()))?;
        }
        let (jobs, actor) = (jobs.to_vec(), actor.to_owned());
        self.writer.write(move |conn| enqueue(conn, &jobs, action, actor)).await
    }

    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>> {
        let ids = ids.to_vec();
        self.reader.read(move |conn| inspect::show(conn, &ids)).await
    }

    async fn end(&self, id: JobId) -> StorageResult<Option<JobEnd>> {
        self.reader.read(move |conn| output::end(conn, id)).await
    }

    async fn progress(&self, id: JobId) -> StorageResult<Option<Progress>> {
        self.reader.read(move |conn| progress::progress(conn, id)).await
    }

    async fn dead_letters(&self) -> StorageResult<DeadLetters> {
        // On SQLite a job is one row of one table, and its id is the key. So the database refuses no move of a row.
        Ok(DeadLetters::default())
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        self.reader.read(worker::list).await
    }

    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool> {
        check_words("the actor", by).and_then(|()| check_words("the reason", reason)).map_err(StorageError::Config)?;
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.writer.write(move |conn| installation::freeze(conn, &by, &reason)).await
    }

    async fn thaw(&self, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| installation::thaw(conn, &actor)).await
    }

    async fn set_environment(&self, environment: Option<&str>, actor: &str) -> StorageResult<bool> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let (environment, actor) = (environment.map(str::to_owned), actor.to_owned());
        self.writer.write(move |conn| installation::set_environment(conn, environment.as_deref(), &actor)).await
    }

    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize, actor: &str) -> StorageResult<usize> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let actor = actor.to_owned();
        let cancelled =
            self.writer.write(move |conn| operate::cancel_enqueued_before(conn, time, limit, &actor)).await?;
        acted(Action::Cancel.as_str(), cancelled);
        Ok(cancelled)
    }

    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        let (queues, kinds) = (queues.to_vec(), kinds.to_vec());
        self.writer.write(move |conn| operate::bring_forward(conn, &queues, &kinds)).await
    }

    async fn forget_missed_ticks(&self, actor: &str) -> StorageResult<()> {
        check_words("the actor", actor).map_err(StorageError::Config)?;
        let actor = actor.to_owned();
        self.writer.write(move |conn| installation::forget_missed_ticks(conn, &actor)).await
    }
}
