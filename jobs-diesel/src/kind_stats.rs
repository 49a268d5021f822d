//! `stats` of either database, from the rows that its query answers.

use diesel_jobs_core::KindStats;

/// Queue and kind; how many are available, scheduled, retrying, running, completed, cancelled, discarded; and of those that are
/// available the oldest, as the database tells it.
pub(crate) type StatsRow<Oldest> = (String, String, i64, i64, i64, i64, i64, i64, i64, Option<Oldest>);

/// `seconds` is how long the oldest has waited.
pub(crate) fn kind_stats<Oldest>(rows: Vec<StatsRow<Oldest>>, seconds: impl Fn(Oldest) -> f64) -> Vec<KindStats> {
    let stats = |row| {
        let (queue, kind, available, scheduled, retrying, running, completed, cancelled, discarded, oldest) = row;
        let oldest_wait_seconds = Option::map(oldest, &seconds);
        KindStats {
            queue,
            kind,
            available,
            scheduled,
            retrying,
            running,
            completed,
            cancelled,
            discarded,
            oldest_wait_seconds,
        }
    };
    rows.into_iter().map(stats).collect()
}
