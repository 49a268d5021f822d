//! How the proxy recognises the product's statements: by text that occurs in one of them and in no other. If a
//! statement changes, the tests that search for its text report that they found none.

/// Moves jobs from `ready` to `running`.
pub(super) const CLAIM: &str = "insert into jobs.running";
/// Moves jobs out of `running` if their leases are current.
pub(super) const FINISH: &str = "delete from jobs.running r\n";
/// Adds jobs.
pub(super) const ENQUEUE: &str = "insert into jobs.ready";
/// Ends a transaction. The product's own statements are in lower case.
pub(super) const COMMIT: &str = "COMMIT";
