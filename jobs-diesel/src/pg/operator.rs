//! The queries and commands of people.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_async::RunQueryDsl;
use diesel_jobs_core::storage::{JobFilter, Operated, Operator, StorageResult};
use diesel_jobs_core::{
    AttemptError, DeadLetters, JobEnd, JobId, JobRecord, JobState, Progress, Retention, WorkerRecord, flags,
};

use super::queries::bring_forward::BringForwardQuery;
use super::queries::cancel_many::CancelManyQuery;
use super::queries::operate::{CancelQuery, RetryQuery};
use super::queries::output::{EndRow, end, one_end};
use super::queries::progress::one_progress;
use super::queries::thaw::ThawQuery;
use super::queries::{dead_letter, inspect, installation};
use super::{PgStorage, native, run};
use crate::stored_progress::{Columns, stored};

/// How many times a command is tried. A job may move after a command did nothing, and before the query that asks why.
const TRIES: usize = 3;

/// Jobs per statement.
const CHUNK: usize = 1000;

#[derive(Clone, Copy)]
enum Command {
    Retry,
    Cancel,
}

impl Command {
    fn refuses(self, state: JobState) -> bool {
        match self {
            Self::Retry => matches!(state, JobState::Running | JobState::Completed),
            Self::Cancel => state.is_finished(),
        }
    }
}

/// Each id once, so that no two statements are asked about the same job.
fn distinct(ids: &[JobId]) -> Vec<JobId> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().copied().filter(|id| seen.insert(*id)).collect()
}

impl PgStorage {
    async fn operate(&self, ids: &[JobId], command: Command) -> StorageResult<Vec<Operated>> {
        let mut answers: HashMap<i64, Operated> = HashMap::with_capacity(ids.len());
        for ids in distinct(ids).chunks(CHUNK) {
            let mut open: Vec<i64> = ids.iter().map(|id| id.0).collect();
            for _ in 0..TRIES {
                // Reads all rows, because the first row comes before the statement is committed.
                let moved: Vec<i64> = match command {
                    Command::Retry => run!(self, "retry", conn => RetryQuery { ids: open.clone() }.load(conn)),
                    Command::Cancel => {
                        let keep_seconds = native::seconds(Retention::default().failed);
                        run!(self, "cancel", conn => CancelQuery::new(open.clone(), keep_seconds).load(conn))
                    }
                }?;
                answers.extend(moved.iter().map(|id| (*id, Operated::Done)));
                open.retain(|id| answers.get(id) != Some(&Operated::Done));
                if open.is_empty() {
                    break;
                }
                // A job that is not found keeps this answer, unless it has just moved: then the next try finds it.
                answers.extend(open.iter().map(|id| (*id, Operated::NotFound)));
                let standing = run!(self, "standing", conn => inspect::standing(conn, &open))?;
                open.clear();
                for (id, state, flags) in standing {
                    let is_known = flags::are_known(flags);
                    answers.insert(id, if is_known { Operated::Refused(state) } else { Operated::Newer });
                    if is_known && !command.refuses(state) {
                        open.push(id);
                    }
                }
                if open.is_empty() {
                    break;
                }
            }
        }
        Ok(ids.iter().map(|id| answers.get(&id.0).copied().unwrap_or(Operated::NotFound)).collect())
    }
}

#[async_trait]
impl Operator for PgStorage {
    async fn list(&self, filter: &JobFilter) -> StorageResult<Vec<JobRecord>> {
        run!(self, "list", conn => inspect::list(conn, filter))
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

    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        self.operate(ids, Command::Retry).await
    }

    async fn cancel_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        self.operate(ids, Command::Cancel).await
    }

    async fn dead_letters(&self) -> StorageResult<DeadLetters> {
        run!(self, "dead_letters", conn => dead_letter::dead_letters(conn))
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        run!(self, "workers", conn => inspect::workers(conn))
    }

    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool> {
        run!(self, "freeze", conn => installation::freeze(conn, by, reason))
    }

    async fn thaw(&self) -> StorageResult<bool> {
        // There is only one row, but `get_result` would return it before the statement is committed.
        let thawed: Vec<i64> = run!(self, "thaw", conn => ThawQuery.load(conn))?;
        Ok(thawed.iter().any(|rows| *rows > 0))
    }

    async fn set_environment(&self, environment: Option<&str>) -> StorageResult<()> {
        run!(self, "set_environment", conn => installation::set_environment(conn, environment))
    }

    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize) -> StorageResult<usize> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let keep_seconds = native::seconds(Retention::default().failed);
        let cancelled: Vec<i64> = run!(self, "cancel_enqueued_before", conn =>
            CancelManyQuery::new(time, limit, keep_seconds).load(conn))?;
        Ok(cancelled.into_iter().map(|rows| usize::try_from(rows).unwrap_or_default()).sum())
    }

    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        let spans: Vec<f64> = run!(self, "bring_forward", conn => BringForwardQuery { queues, kinds }.load(conn))?;
        Ok(Duration::from_secs_f64(spans.into_iter().sum()))
    }

    async fn forget_missed_ticks(&self) -> StorageResult<()> {
        run!(self, "forget_missed_ticks", conn => installation::forget_missed_ticks(conn))
    }
}
