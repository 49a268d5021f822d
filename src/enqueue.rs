//! Enqueueing in detail: jobs without a type, many jobs at once, and a job for each row of a query. Most applications
//! need only the trait [`Enqueue`](crate::Enqueue) and the function [`enqueue_all`](crate::enqueue_all).
//!
//! [`EnqueueConnection`] is implemented by each type of connection that you can enqueue on, so a function of yours that
//! enqueues can be generic over it. [`EnqueueEach`] adds `enqueue_each` to Diesel's queries, and [`IntoNewJob`] turns a
//! job of any type into a [`NewJob`](crate::NewJob), which you can store in a collection or inspect:
//!
//! ```
//! use diesel_jobs::enqueue::IntoNewJob;
//! use diesel_jobs::prelude::*;
//!
//! #[job(queue = "mail")]
//! async fn send_welcome(user_id: i64) {
//!     println!("welcome, {user_id}");
//! }
//!
//! let job = SendWelcome { user_id: 7 }.priority(5).into_new_job()?;
//! assert_eq!((&*job.kind, &*job.queue, job.priority), ("send_welcome", "mail", 5));
//! # Ok::<_, diesel_jobs::enqueue::InvalidJob>(())
//! ```

pub use diesel_jobs_core::{IntoInstant, IntoNewJob, InvalidJob, KeyProblem, RunAt, Selection};
pub use diesel_jobs_storage::{
    BoxConnectionFuture, ColumnArgument, ConnectionFuture, EnqueueConnection, EnqueueEach, InsertEach, IntoColumn,
    JobColumns, TransactionConnection,
};
