//! The attempts of a job as a table, for `show`.

use diesel_jobs_core::{AttemptEnd, AttemptRecord};

use super::duration;
use super::output::{self, Align, Table};

/// The attempts as a table. Empty if there was none.
pub(super) fn table(attempts: &[AttemptRecord]) -> String {
    if attempts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("ATTEMPT", Align::Right),
        ("END", Align::Left),
        ("CLAIMED AT", Align::Left),
        ("ENDED AT", Align::Left),
        ("TOOK", Align::Right),
        ("WORKER", Align::Left),
    ]);
    for attempt in attempts {
        let took = attempt.started_at.zip(attempt.ended_at).and_then(|(from, to)| (to - from).to_std().ok());
        table.row([
            attempt.attempt.to_string(),
            end(attempt.end),
            attempt.started_at.map(output::time).unwrap_or_default(),
            attempt.ended_at.map(output::time).unwrap_or_default(),
            took.map(duration::human).unwrap_or_default(),
            attempt.worker.map(|worker| worker.to_string()).unwrap_or_default(),
        ]);
    }
    table.render()
}

fn end(end: AttemptEnd) -> String {
    match end {
        AttemptEnd::Running => "running".to_owned(),
        AttemptEnd::Completed => "completed".to_owned(),
        AttemptEnd::Failed(kind) => kind.to_string(),
        _ => "ended".to_owned(),
    }
}
