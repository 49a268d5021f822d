//! The last line of `run --until-empty`: what the run has done.

use diesel_jobs_core::WorkerStats;

/// Logs how many attempts have ended in which way.
pub(super) fn say(stats: &WorkerStats) {
    let WorkerStats { completed, retried, snoozed, released, cancelled, discarded, leases_lost, .. } = *stats;
    tracing::info!(
        target: "diesel_jobs",
        { completed, retried, snoozed, released, cancelled, discarded, leases_lost },
        "the run has ended: {}", words(stats)
    );
}

fn words(stats: &WorkerStats) -> String {
    let counts = [
        (stats.completed, "completed"),
        (stats.retried, "to be retried"),
        (stats.snoozed, "snoozed"),
        (stats.released, "released"),
        (stats.cancelled, "cancelled"),
        (stats.discarded, "discarded"),
        (stats.leases_lost, "whose lease was lost"),
    ];
    let some = counts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = some.map(|(number, end)| format!("{number} {end}")).collect();
    if parts.is_empty() { "no job was due".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_happened_is_said() {
        let mut stats = WorkerStats::default();
        assert_eq!(words(&stats), "no job was due");
        (stats.completed, stats.retried, stats.discarded) = (12, 1, 2);
        assert_eq!(words(&stats), "12 completed, 1 to be retried, 2 discarded");
    }
}
