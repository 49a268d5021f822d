//! One statement or one operation per file. The caller has begun the transaction.

pub(super) mod bench;
pub(crate) mod claim;
pub(super) mod complete;
pub(super) mod complete_in;
pub(super) mod data_version;
pub(super) mod enqueue;
pub(super) mod enqueue_each;
pub(super) mod failures;
pub(crate) mod finish;
pub(super) mod heartbeat;
pub(crate) mod inspect;
pub(super) mod installation;
pub(super) mod leases;
pub(super) mod ledger;
pub(super) mod levels;
pub(super) mod next_due;
pub(super) mod operate;
pub(super) mod output;
pub(super) mod prune;
pub(super) mod rescue;
pub(super) mod schedule;
pub(super) mod stats;
pub(super) mod store_output;
pub(super) mod tick;
pub(super) mod worker;
