//! `output(conn, id)`: what the handler of a job returned, read through the caller's own connection.

use diesel_jobs_core::JobId;
use serde::de::DeserializeOwned;

use crate::enqueue_connection::EnqueueConnection;
use crate::stored_output::OutputError;

/// What the handler of a job returned, as a `T`. `None` if the job has not completed, or has returned nothing. The
/// types that `#[job]` makes have this function as `output`, with the type of the function.
///
/// On PostgreSQL it reads the view `jobs.job`. A role needs `select` on its columns `id`, `output` and `output_note`.
///
/// Sync connections return a `Result`, async ones a future of it.
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
