//! Tests that print figures: reproductions of what a queue must do correctly, and limits for its speed. Each prints a
//! table to standard error, which the test harness does not capture. They run one after the other, so that none affects
//! another.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod backlog;
mod busy_polling;
mod fleet;
mod floors;
mod locks;
mod mixed;
mod order;
mod passing_on;
mod pickup;
mod rates;
mod recovery;
mod schedules;
mod settings;
mod shutdown;
mod table;
mod waits;
mod wrong_queues;
