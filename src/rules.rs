//! Flow control: rules that decide when a job may start, and whether an enqueue inserts a job at all. Write them in
//! `#[job(..)]` for all jobs of a kind, or set them for one job with the methods of [`Job`](crate::Job) that take the
//! types of this module.
//!
//! | rule | in `#[job(..)]` | for one job |
//! |---|---|---|
//! | how many jobs with the same key run at once | `concurrency(limit = 5, by(account_id))` | [`Limit`] |
//! | how many jobs with the same key start per interval | `rate(limit = 100, per = "1m")` | [`Rate`] |
//! | jobs with the same key run one after the other | `sequence(by(order_id))` | [`Sequence`] |
//! | an enqueue finds the job that has the same key | `unique(by(user_id))` | [`Unique`] |
//!
//! ```
//! use diesel_jobs::prelude::*;
//! use diesel_jobs::rules::Limit;
//!
//! #[job(concurrency(limit = 5, by(account_id)))]
//! async fn synchronise(account_id: i64) {
//!     println!("account {account_id}");
//! }
//!
//! // At most two jobs at once with this key, instead of the limit of the kind.
//! let job = Synchronise { account_id: 7 }.concurrency(Limit::new("large-accounts", 2));
//! # let _ = job;
//! ```

pub use diesel_jobs_core::{
    JobRule, KindRule, Limit, OnConflict, OnDiscard, OnFull, OwnRule, Rate, Replace, Rule, RuleProblem, Rules,
    Sequence, Unique, UniqueKey, UniqueProblem, Until,
};
