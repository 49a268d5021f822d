//! How the product's statements are told apart on the wire: by words that are in one of them and in no other. Should one
//! change, the tests that look for it say that they saw none.

/// Moves jobs from `ready` to `running`.
pub(super) const CLAIM: &str = "insert into jobs.running";
/// Moves jobs out of `running`, if their leases stand.
pub(super) const FINISH: &str = "delete from jobs.running r\n";
/// Adds jobs.
pub(super) const ENQUEUE: &str = "insert into jobs.ready";
/// Ends a transaction; all that the product writes itself is in lower case.
pub(super) const COMMIT: &str = "COMMIT";
