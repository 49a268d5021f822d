//! Workers in detail: what [`Worker`](crate::Worker) and [`WorkerBuilder`](crate::WorkerBuilder) take and return.
//! `worker!` generates the `main` function of a worker that needs nothing from this module.
//!
//! [`Database::builder`](crate::Database::builder) returns a [`DatabaseBuilder`], which opens a database whose
//! [`Credentials`] change.
//!
//! A [`Registry`] has the jobs that a worker can run, by default all that are linked into the program. A
//! [`WorkerHandle`] stops a running worker, answers health checks, and returns its [`WorkerStats`]:
//!
//! ```no_run
//! use diesel_jobs::{Database, Worker};
//!
//! # async fn run(stop: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::open("sqlite://app.db", 8).await?;
//! let worker = Worker::builder(database.storage).build()?;
//! let handle = worker.handle();
//! worker.run_until(stop).await?;
//! println!("{} jobs have completed", handle.stats().completed);
//! # Ok(())
//! # }
//! ```

pub use diesel_jobs_core::{
    HealthCheck, NoRuntime, QueueLoad, Registry, RegistryError, Retention, UnknownQueue, UntilEmpty, WorkerHandle,
    WorkerId, WorkerStats,
};
pub use diesel_jobs_storage::{Credentials, DatabaseBuilder};
