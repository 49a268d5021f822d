//! What is shown with figures: reproductions of what a queue must get right, and the bars for its speed. Each prints a
//! table to standard error, past the test harness. They run one after the other, so that none disturbs another.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod backlog;
mod fleet;
mod mixed;
mod order;
mod pickup;
mod recovery;
mod table;
mod wrong_queues;
