//! The worker's runtime: what happens to jobs, whatever their handlers, their workers and their database do.
//!
//! PostgreSQL's tests need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[macro_use]
mod each_connection;

mod aliases;
mod bad_input;
mod batch_transactions;
mod batches;
mod becoming_idle;
mod blocked_threads;
mod busy;
mod canary;
mod cancelling;
mod claims;
mod clock_steps;
mod completing_in;
mod conflicts;
mod context;
mod crashes;
mod cron;
mod daylight;
mod declared;
mod decoding;
mod draining;
mod embedded;
mod enqueueing;
mod environments;
mod expiring;
mod fair;
mod floors;
mod from_sql;
mod history;
mod intervals;
mod language;
mod layers;
mod limits;
mod loading;
mod locked_rows;
mod lossy;
mod lost_replies;
mod on_discarded;
mod on_full;
mod operations;
mod order;
mod outages;
mod outcomes;
mod panics;
mod passing_on;
mod patterns;
mod pickup;
mod prefetching;
mod preparing;
mod progress;
mod rates;
mod recording;
mod retention;
mod row_values;
mod rows;
mod sessions;
mod settings;
mod several_queues;
mod shutdown;
mod slots_total;
mod spans;
mod stale_sessions;
mod statistics;
mod threads;
mod timeouts;
mod tls;
mod trace_contexts;
mod transaction_ends;
mod transactional;
mod until_empty;
