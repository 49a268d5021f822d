//! The connection types that a transactional handler may take.

use diesel_jobs_core::{AnyConnection, JobContext, JobError};

/// A connection that an `async fn` job may take as `&mut` parameter.
#[cfg_attr(feature = "postgres", diagnostic::on_unimplemented(message = "an `async fn` job cannot take `&mut {Self}`"))]
#[cfg_attr(
    not(feature = "postgres"),
    diagnostic::on_unimplemented(
        message = "an `async fn` job cannot take `&mut {Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection of an async job",
    note = "an `async fn` job takes `&mut AsyncPgConnection` (feature `postgres`); other references are not job parameters",
    note = "for `&mut PgConnection` or `&mut SqliteConnection` write a plain `fn`; arguments are taken by value, as `&str` or as `&[T]`"
)]
pub trait AsyncJobConnection: Send + 'static {
    #[doc(hidden)]
    fn of_job<'c>(connection: AnyConnection<'c>, ctx: &JobContext) -> Result<&'c mut Self, JobError>
    where
        Self: Sized,
    {
        downcast(connection, ctx)
    }
}

/// A connection that a plain `fn` job may take as `&mut` parameter.
#[cfg_attr(
    all(feature = "postgres-sync", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "a plain `fn` job cannot take `&mut {Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres-sync")),
    diagnostic::on_unimplemented(
        message = "a plain `fn` job cannot take `&mut {Self}`; a PgConnection needs `diesel-jobs = {{ features = [\"postgres-sync\"] }}` \
                   in Cargo.toml"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "a plain `fn` job cannot take `&mut {Self}`; a PgConnection needs `diesel-jobs = {{ features = [\"postgres-sync\"] }}` \
                   in Cargo.toml, and a SqliteConnection needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection of a blocking job",
    note = "a plain `fn` job takes `&mut PgConnection` (feature `postgres-sync`) or `&mut SqliteConnection` (feature `sqlite`)",
    note = "for `&mut AsyncPgConnection` write an `async fn`; arguments are taken by value, as `&str` or as `&[T]`"
)]
pub trait BlockingJobConnection: Send + 'static {
    #[doc(hidden)]
    fn of_job<'c>(connection: AnyConnection<'c>, ctx: &JobContext) -> Result<&'c mut Self, JobError>
    where
        Self: Sized,
    {
        downcast(connection, ctx)
    }
}

#[cfg(feature = "postgres")]
impl AsyncJobConnection for diesel_async::AsyncPgConnection {}

#[cfg(feature = "postgres-sync")]
impl BlockingJobConnection for diesel::PgConnection {}

#[cfg(feature = "sqlite")]
impl BlockingJobConnection for diesel::SqliteConnection {}

/// Returns the connection as the type of the job's parameter. The registry has compared the types before the worker
/// starts. If a storage passes a connection of another type nevertheless, the job fails with this error, and the worker
/// continues.
fn downcast<'c, C: 'static>(connection: AnyConnection<'c>, ctx: &JobContext) -> Result<&'c mut C, JobError> {
    connection.downcast_mut().ok_or_else(|| {
        JobError::msg(format!(
            "job `{}` asks for a `{}`, but its worker's database handed out another connection; \
             run the worker on the other database, or change the parameter",
            ctx.kind(),
            std::any::type_name::<C>()
        ))
    })
}
