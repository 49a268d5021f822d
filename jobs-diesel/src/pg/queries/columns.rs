//! The columns that stand in several statements, each list once: a stored column is added here.

/// What goes with a job through every move, unchanged.
pub(super) const CARRIED: &str = "enqueued_at, flags, priority, kind, queue, tags, args";

/// What is written down about a failed attempt.
pub(super) const ERROR: &str = "job_id, attempt, started_at, worker, kind, message";

/// What `jobs.ready` has besides.
pub(super) const READY: &str = "id, run_at, lease, attempt, max_attempts, crashes";

/// What `jobs.running` has besides.
pub(super) const RUNNING: &str = "id, run_at, lease, attempt, max_attempts, crashes, worker";

/// What `jobs.finished` has besides.
pub(super) const FINISHED: &str =
    "id, run_at, claimed_at, expires_at, lease, state, attempt, max_attempts, crashes, worker";
