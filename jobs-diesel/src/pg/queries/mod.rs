//! One statement per file. The file has the name of its operation.

pub(crate) mod ask_worker;
pub(crate) mod audit;
pub(crate) mod audited;
pub(crate) mod bench;
#[cfg(feature = "testing")]
pub(crate) mod blocked;
pub(crate) mod bring_forward;
pub(crate) mod by_id;
pub(crate) mod cancel_many;
pub(crate) mod cancelled;
pub(crate) mod change;
pub(crate) mod change_schedule;
pub(crate) mod claim;
pub(crate) mod claim_few;
pub(crate) mod claim_limit;
pub(crate) mod claim_quarantined;
pub(crate) mod clock;
mod columns;
pub(crate) mod complete;
pub(crate) mod complete_in;
pub(crate) mod count_jobs;
pub(crate) mod dead_letter;
pub(crate) mod dead_rows;
pub(crate) mod declare_discard_rules;
pub(crate) mod delete;
pub(crate) mod delete_jobs;
pub(crate) mod discard;
pub(crate) mod discover;
pub(crate) mod enqueue;
pub(crate) mod enqueue_alike;
pub(crate) mod enqueue_each;
pub(crate) mod failures;
pub(crate) mod find;
pub(crate) mod finish;
pub(crate) mod fold_history;
pub(crate) mod heartbeat;
pub(crate) mod inspect;
pub(crate) mod installation;
pub(crate) mod leases;
pub(crate) mod list_schedules;
pub(crate) mod live_queues;
pub(crate) mod lock_jobs;
mod matching;
pub(crate) mod next_due;
mod on_discarded;
pub(crate) mod operate;
pub(crate) mod operation;
pub(crate) mod output;
pub(crate) mod passed;
pub(crate) mod pause;
pub(crate) mod progress;
pub(crate) mod prune;
pub(crate) mod queue_depths;
pub(crate) mod record_history;
pub(crate) mod rerun;
pub(crate) mod rescan;
pub(crate) mod rescue;
pub(crate) mod retention;
pub(crate) mod sample;
pub(crate) mod scan;
pub(crate) mod schedule;
pub(crate) mod series;
pub(crate) mod session;
pub(crate) mod set_apart;
pub(crate) mod slots;
#[cfg(feature = "testing")]
pub(crate) mod start;
pub(crate) mod store_outputs;
pub(crate) mod thaw;
pub(crate) mod tick;
pub(crate) mod wake;
pub(crate) mod worker;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
