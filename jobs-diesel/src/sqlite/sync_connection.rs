//! Diesel's own connections to SQLite, plain or pooled.

use diesel::connection::{LoadConnection, TransactionManager, TransactionManagerStatus};
use diesel::prelude::*;
use diesel::query_dsl::methods::ExecuteDsl;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, merged};
use serde::de::DeserializeOwned;

use crate::enqueue_connection::{EnqueueConnection, SqliteSync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::job_change::{ChangeError, JobChange};
use crate::sqlite::queries::change::{self, Found};
use crate::sqlite::queries::complete_in::{self, Row};
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::output::one_output;
use crate::sqlite::queries::unique::{self, Decision, Holder};
use crate::sqlite::{hint, migrate};
use crate::stored_output::{Columns, OutputError, read_output};

impl<C: LoadConnection<Backend = Sqlite>> EnqueueConnection<SqliteSync> for C {
    type Output<'c, T, E>
        = Result<T, E>
    where
        Self: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> Result<Enqueued, EnqueueError> {
        let job = job?;
        if job.unique.is_some() {
            let enqueued = self.transaction(|conn| insert_unique(conn, &job))?;
            hint::enqueued();
            return Ok(enqueued);
        }
        // Not `get_result`, because it stops at the row. The statement would then end in a way that hides a failed
        // commit. After that, SQLite would move nothing from the write-ahead log into the file.
        let ids = Insert::one(&job).load(self)?;
        hint::enqueued();
        ids.into_iter().next().map(|id| Enqueued::new(JobId(id))).ok_or_else(|| diesel::result::Error::NotFound.into())
    }

    fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        let jobs = jobs?;
        let enqueued = self.transaction(|conn| insert_jobs(conn, jobs))?;
        hint::enqueued();
        Ok(enqueued)
    }

    fn change(&mut self, change: Result<JobChange, ChangeError>) -> Result<usize, ChangeError> {
        let change = change?;
        let changed = self.transaction(|conn| {
            let found: Vec<Found> = change::begin(&change).load(conn)?;
            let [found] = found.as_slice() else { return Ok(0) };
            for statement in change::statements(change.verb, &found.ids) {
                ExecuteDsl::execute(statement, conn)?;
            }
            Ok::<_, ChangeError>(found.number())
        })?;
        hint::enqueued();
        Ok(changed)
    }

    fn output<T>(&mut self, id: JobId) -> Result<Option<T>, OutputError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let row: Option<Columns> = one_output(id).first(self).optional()?;
        read_output(id, row)
    }
}

impl<C: LoadConnection<Backend = Sqlite>> TransactionConnection<SqliteSync> for C {
    fn complete(&mut self, ctx: &JobContext) -> Result<(), CompleteError> {
        let TransactionManagerStatus::Valid(status) = C::TransactionManager::transaction_manager_status_mut(self)
        else {
            return Err(diesel::result::Error::BrokenTransactionManager.into());
        };
        if status.transaction_depth().is_none() {
            return Err(CompleteError::NoTransaction);
        }
        let lease = ctx.lease();
        let row = Row::after(&ctx.completion().transition);
        let moved = match row {
            Row::Stays(keep) => ExecuteDsl::execute(complete_in::complete(lease, keep), self)?,
            Row::Goes => ExecuteDsl::execute(complete_in::delete(lease), self)?,
        };
        if moved == 0 {
            return Err(CompleteError::LeaseLost(lease));
        }
        if let Row::Goes = row {
            ExecuteDsl::execute(complete_in::forget(lease), self)?;
        }
        ctx.mark_completed_in();
        Ok(())
    }

    fn migrate(&mut self) -> Result<(), MigrateError> {
        migrate::up(self).map(drop)
    }
}

/// Inserts all of these jobs. The caller's transaction is open.
pub(super) fn insert_jobs<C>(conn: &mut C, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: LoadConnection<Backend = Sqlite>,
{
    if jobs.iter().all(|job| job.unique.is_none()) {
        return insert_plain(conn, &jobs);
    }
    let merged = merged(jobs)?;
    let (plain, unique) = merged.jobs.split_at(merged.jobs.partition_point(|job| job.unique.is_none()));
    let mut enqueued = insert_plain(conn, plain)?;
    for job in unique {
        enqueued.push(insert_unique(conn, job)?);
    }
    Ok(merged.answers(&enqueued))
}

fn insert_plain<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: LoadConnection<Backend = Sqlite>,
{
    let mut enqueued = Vec::with_capacity(jobs.len());
    for insert in Insert::all(jobs) {
        enqueued.extend(Insert::in_order(insert.load(conn)?));
    }
    Ok(enqueued)
}

fn insert_unique<C>(conn: &mut C, job: &NewJob) -> Result<Enqueued, EnqueueError>
where
    C: LoadConnection<Backend = Sqlite>,
{
    let Some(key) = &job.unique else { return Err(diesel::result::Error::NotFound.into()) };
    let reserved = ExecuteDsl::execute(unique::reserve(key), conn)?;
    let holder: Vec<Holder> = if reserved == 0 { unique::holder(key).load(conn)? } else { Vec::new() };
    match unique::decide(key, holder.as_slice().first()) {
        Decision::Insert => {
            let ids: Vec<i64> = Insert::one(job).load(conn)?;
            let id = ids.into_iter().next().map(JobId).ok_or(diesel::result::Error::NotFound)?;
            ExecuteDsl::execute(unique::give(key, id), conn)?;
            Ok(Enqueued::new(id))
        }
        Decision::Keep(id) => Ok(Enqueued::existing(id)),
        Decision::Fail(id) => Err(EnqueueError::exists(job, id)),
        Decision::Replace(id) => {
            ExecuteDsl::execute(unique::replace(id, job, key.rule.on_conflict), conn)?;
            Ok(Enqueued::replaced(id))
        }
    }
}
