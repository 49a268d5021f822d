//! `output(conn, id)`: what the handler of a job returned, read through the caller's own connection.

use diesel_jobs_core::JobId;
use serde::de::DeserializeOwned;

use crate::enqueue_connection::EnqueueConnection;
use crate::stored_output::OutputError;

/// Reads what the handler of a job returned, as a `T`. Returns `None` if the job has not completed, or if its handler
/// returned nothing. Job types that `#[job]` generates have an associated function `output`, which calls this one with
/// the return type of the handler.
///
/// On PostgreSQL, this reads the view `jobs.job`. The role needs the right `select` on its columns `id`, `output` and
/// `output_note`.
///
/// A sync connection returns a `Result`, and an async connection returns a future of it.
///
/// ```no_run
/// # use diesel::SqliteConnection;
/// # use diesel_jobs_storage::OutputError;
/// # fn read(conn: &mut SqliteConnection, id: diesel_jobs_core::JobId) -> Result<(), OutputError> {
/// let pages = diesel_jobs_storage::output::<u32, _, _>(conn, id)?;
/// # Ok(())
/// # }
/// ```
pub fn output<'c, T, C, M>(conn: &'c mut C, id: impl Into<JobId>) -> C::Output<'c, Option<T>, OutputError>
where
    T: DeserializeOwned + Send + 'static,
    C: EnqueueConnection<M> + 'c,
{
    conn.output(id.into())
}
