//! What people ask of the database.

use async_trait::async_trait;
use diesel_async::RunQueryDsl;
use jobs_core::storage::{JobFilter, Operated, Operator, StorageResult};
use jobs_core::{AttemptError, JobId, JobRecord, JobState, KindStats, Retention, WorkerRecord, flags};

use super::queries::inspect;
use super::queries::operate::{CancelQuery, RetryQuery};
use super::{PgStorage, native, run};

/// A job may move between the command and the look at why it did nothing; then the command tries again.
const TRIES: usize = 3;

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

impl PgStorage {
    async fn operate(&self, id: JobId, command: Command) -> StorageResult<Operated> {
        let mut state = None;
        for _ in 0..TRIES {
            // One row; but `get_result` answers with it before the statement is committed.
            let moved: Vec<i64> = match command {
                Command::Retry => run!(self, "retry", conn => RetryQuery { id: id.0 }.load(conn)),
                Command::Cancel => {
                    let keep_seconds = native::seconds(Retention::default().failed);
                    run!(self, "cancel", conn => CancelQuery { id: id.0, keep_seconds }.load(conn))
                }
            }?;
            if moved.iter().any(|moved| *moved > 0) {
                return Ok(Operated::Done);
            }
            match self.show(id).await? {
                None => return Ok(Operated::NotFound),
                Some((job, _)) if !flags::are_known(job.flags) => return Ok(Operated::Newer),
                Some((job, _)) if command.refuses(job.state) => return Ok(Operated::Refused(job.state)),
                Some((job, _)) => state = Some(job.state),
            }
        }
        Ok(state.map_or(Operated::NotFound, Operated::Refused))
    }
}

#[async_trait]
impl Operator for PgStorage {
    async fn list(&self, filter: &JobFilter) -> StorageResult<Vec<JobRecord>> {
        run!(self, "list", conn => inspect::list(conn, filter))
    }

    async fn show(&self, id: JobId) -> StorageResult<Option<(JobRecord, Vec<AttemptError>)>> {
        run!(self, "show", conn => inspect::show(conn, id))
    }

    async fn retry(&self, id: JobId) -> StorageResult<Operated> {
        self.operate(id, Command::Retry).await
    }

    async fn cancel(&self, id: JobId) -> StorageResult<Operated> {
        self.operate(id, Command::Cancel).await
    }

    async fn stats(&self) -> StorageResult<Vec<KindStats>> {
        run!(self, "stats", conn => inspect::stats(conn))
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        run!(self, "workers", conn => inspect::workers(conn))
    }
}
