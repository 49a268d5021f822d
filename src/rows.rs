//! Rows of your tables as parameters of handlers, and jobs as rows for your queries.
//!
//! A handler that takes a [`Ref`] stores only the primary key, a [`Key`], with the job, and the worker loads the row
//! before it calls the handler. A [`Take`] is a row that no other attempt uses at the same time. [`job_view!`] declares
//! the view of all jobs in your schema, so that your queries can join it.
//!
//! ```
//! use diesel::prelude::*;
//! use diesel_jobs::prelude::*;
//! use diesel_jobs::rows::Ref;
//!
//! diesel::table! {
//!     users (id) {
//!         id -> BigInt,
//!         name -> Text,
//!     }
//! }
//!
//! #[derive(Identifiable, Queryable, Selectable)]
//! struct User {
//!     id: i64,
//!     name: String,
//! }
//!
//! #[job]
//! async fn greet(user: Ref<User>) {
//!     println!("Hello {}", user.name);
//! }
//!
//! # fn main() {
//! let job = Greet::new(7);
//! # let _ = job;
//! # }
//! ```

pub use diesel_jobs_storage::{
    AsyncLoadRow, AsyncTakeRow, Key, LoadRow, OwnedKey, Ref, Row, RowLock, Take, TakeRow, job_view,
};
