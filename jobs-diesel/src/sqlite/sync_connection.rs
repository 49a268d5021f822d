//! Diesel's own connections to SQLite, plain or pooled.

use diesel::connection::{LoadConnection, TransactionManager, TransactionManagerStatus};
use diesel::prelude::*;
use diesel::query_dsl::methods::ExecuteDsl;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob};
use serde::de::DeserializeOwned;

use crate::enqueue_connection::{EnqueueConnection, SqliteSync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::sqlite::queries::complete_in::{self, Row};
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::output::one_output;
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
        // Not `get_result`, because it stops at the row. The statement would then end in a way that hides a failed
        // commit. After that, SQLite would move nothing from the write-ahead log into the file.
        let ids = Insert::one(&job?).load(self)?;
        hint::enqueued();
        ids.into_iter().next().map(|id| Enqueued::new(JobId(id))).ok_or_else(|| diesel::result::Error::NotFound.into())
    }

    fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        let jobs = jobs?;
        let ids = self.transaction(|conn| {
            let mut ids = Vec::with_capacity(jobs.len());
            for insert in Insert::all(&jobs) {
                ids.extend(Insert::in_order(insert.load(conn)?));
            }
            Ok::<_, EnqueueError>(ids)
        })?;
        hint::enqueued();
        Ok(ids)
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
