//! The connections a transactional handler may ask for.

/// A connection that an `async fn` job may take as `&mut` parameter.
#[diagnostic::on_unimplemented(
    message = "an `async fn` job cannot take `&mut {Self}`",
    label = "not a connection of an async job",
    note = "an `async fn` job takes `&mut AsyncPgConnection` (feature `postgres`); other references are not job parameters",
    note = "for `&mut PgConnection` or `&mut SqliteConnection` write a plain `fn`; arguments are taken by value, as `&str` or as `&[T]`"
)]
pub trait AsyncJobConnection: Send + 'static {}

/// A connection that a plain `fn` job may take as `&mut` parameter.
#[diagnostic::on_unimplemented(
    message = "a plain `fn` job cannot take `&mut {Self}`",
    label = "not a connection of a blocking job",
    note = "a plain `fn` job takes `&mut PgConnection` (feature `postgres-sync`) or `&mut SqliteConnection` (feature `sqlite`)",
    note = "for `&mut AsyncPgConnection` write an `async fn`; arguments are taken by value, as `&str` or as `&[T]`"
)]
pub trait BlockingJobConnection: Send + 'static {}

#[cfg(feature = "postgres")]
impl AsyncJobConnection for diesel_async::AsyncPgConnection {}

#[cfg(feature = "postgres-sync")]
impl BlockingJobConnection for diesel::PgConnection {}

#[cfg(feature = "sqlite")]
impl BlockingJobConnection for diesel::SqliteConnection {}
