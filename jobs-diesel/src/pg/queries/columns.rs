//! The column lists that several statements share. A new stored column is added here, and to the functions in
//! `migrations/postgres/0001_jobs/up/16_change.sql`.

/// Those of [`CARRIED`] that no operator changes.
macro_rules! unchanged {
    () => {
        "tags, args, traceparent, rules"
    };
}

pub(super) const UNCHANGED: &str = unchanged!();

/// The columns that every move of a job copies unchanged.
pub(super) const CARRIED: &str = concat!("enqueued_at, flags, priority, kind, queue, ", unchanged!());

/// The same for jobs that a finish moves: a job that snoozes has started, so it does not expire any more.
pub(super) const CARRIED_ON: &str =
    concat!("enqueued_at, case when verb = 5 then flags & ~32 else flags end, priority, kind, queue, ", unchanged!());

/// The columns that are written for a failed attempt.
pub(super) const ERROR: &str = "job_id, attempt, started_at, worker, kind, message, fingerprint";

/// The other columns that are written to `jobs.ready`.
pub(super) const READY: &str = "id, run_at, lease, attempt, max_attempts, crashes";

/// The other columns that are written to `jobs.running`.
pub(super) const RUNNING: &str = "id, run_at, lease, attempt, max_attempts, crashes, worker";

/// The other columns that are written to `jobs.finished`.
pub(super) const FINISHED: &str =
    "id, run_at, claimed_at, expires_at, lease, state, attempt, max_attempts, crashes, worker";

/// The further columns that are written to `jobs.held` for a job with rules.
pub(super) const HELD: &str = "later, limit_name, limit_key, most";

/// Their values without `later`, from [`PLACE`].
pub(super) const HELD_VALUES: &str = "place.limit_name, place.limit_key, place.most";

/// The part of a `from` clause that says where a job with the column `rules` waits first.
pub(super) const PLACE: &str = "cross join lateral jobs.place(rules) place";
