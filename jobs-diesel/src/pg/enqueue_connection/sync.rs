//! [`EnqueueConnection`] for Diesel's own `PgConnection` and its pools.

use diesel::connection::{LoadConnection, TransactionManager as _};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, merged};
use serde::de::DeserializeOwned;

use super::Inserted;
use crate::enqueue_connection::{EnqueueConnection, PgSync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::job_change::{ChangeError, JobChange};
use crate::migrations::POSTGRES;
use crate::pg::insert_chunk::insert_chunk;
use crate::pg::migrate;
use crate::pg::queries::act::{self, ActQuery};
use crate::pg::queries::enqueue::{CHUNK, EnqueueQuery};
use crate::pg::queries::finish::FinishQuery;
use crate::pg::queries::finish_variants::LimitedQuery;
use crate::pg::queries::output::{OutputRow, one_output};
use crate::stored_output::{OutputError, read_output};

fn insert_chunks<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: LoadConnection<Backend = Pg>,
{
    let mut enqueued = Vec::with_capacity(jobs.len());
    for chunk in jobs.chunks(CHUNK) {
        enqueued.extend(insert_chunk!(conn, chunk, []));
    }
    Ok(enqueued)
}

fn insert_all<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: LoadConnection<Backend = Pg>,
{
    match jobs.len() {
        0 => Ok(Vec::new()),
        1..=CHUNK => insert_chunks(conn, jobs),
        _ => conn.transaction(|conn| insert_chunks(conn, jobs)),
    }
}

fn is_in_transaction<C: LoadConnection<Backend = Pg>>(conn: &mut C) -> bool {
    let status = C::TransactionManager::transaction_manager_status_mut(conn);
    status.transaction_depth().is_ok_and(|depth| depth.is_some())
}

impl<C> EnqueueConnection<PgSync> for C
where
    C: LoadConnection<Backend = Pg>,
{
    type Output<'c, T, E>
        = Result<T, E>
    where
        C: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> Result<Enqueued, EnqueueError> {
        let job = job?;
        if job.traceparent.is_some() || job.needs_more() {
            let ids = insert_chunks(self, &[job])?;
            return Ok(*ids.first().ok_or(diesel::result::Error::NotFound)?);
        }
        let (id, _): Inserted = EnqueueQuery::new(&job).get_result(self)?;
        Ok(Enqueued::new(JobId(id)))
    }

    fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Result<Vec<Enqueued>, EnqueueError> {
        let jobs = jobs?;
        if jobs.iter().any(|job| job.unique.is_some()) {
            let merged = merged(jobs)?;
            let enqueued = insert_all(self, &merged.jobs)?;
            return Ok(merged.answers(&enqueued));
        }
        insert_all(self, &jobs)
    }

    fn change(&mut self, change: Result<JobChange, ChangeError>) -> Result<usize, ChangeError> {
        let rows: Vec<i32> = ActQuery::new(change?).load(self)?;
        Ok(act::changed(&rows))
    }

    fn output<T>(&mut self, id: JobId) -> Result<Option<T>, OutputError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let row: Option<OutputRow> = one_output(id).first(self).optional()?;
        read_output(id, row.map(OutputRow::into_columns))
    }
}

impl<C> TransactionConnection<PgSync> for C
where
    C: LoadConnection<Backend = Pg>,
{
    fn complete(&mut self, ctx: &JobContext) -> Result<(), CompleteError> {
        if !is_in_transaction(self) {
            return Err(CompleteError::NoTransaction);
        }
        let finish = [ctx.completion()];
        let query = FinishQuery::new(&finish);
        let moved: Vec<i64> = match ctx.claimed().flags.gives_back() {
            true => LimitedQuery(query).get_result(self)?,
            false => query.get_result(self)?,
        };
        if moved.is_empty() {
            return Err(CompleteError::LeaseLost(ctx.lease()));
        }
        ctx.mark_completed_in();
        Ok(())
    }

    fn migrate(&mut self) -> Result<(), MigrateError> {
        let theirs = is_in_transaction(self);
        migrate::up_sync(self, POSTGRES, theirs)
    }
}
