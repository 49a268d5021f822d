//! `stats` of both databases: converts the rows of their queries.

use diesel_jobs_core::KindStats;

/// Queue and kind. Then the numbers of jobs that are available, scheduled, retrying, held, running, completed,
/// cancelled and discarded. Then a value for the oldest available job, in the form of the database.
pub(crate) type StatsRow<Oldest> = (String, String, i64, i64, i64, i64, i64, i64, i64, i64, Option<Oldest>);

/// Converts the rows. `seconds` returns how long the oldest available job has waited, in seconds.
pub(crate) fn kind_stats<Oldest>(rows: Vec<StatsRow<Oldest>>, seconds: impl Fn(Oldest) -> f64) -> Vec<KindStats> {
    let stats = |row| {
        let (queue, kind, available, scheduled, retrying, held, running, completed, cancelled, discarded, oldest) = row;
        let oldest_wait_seconds = Option::map(oldest, &seconds);
        KindStats {
            queue,
            kind,
            available,
            scheduled,
            retrying,
            held,
            running,
            completed,
            cancelled,
            discarded,
            oldest_wait_seconds,
        }
    };
    rows.into_iter().map(stats).collect()
}
