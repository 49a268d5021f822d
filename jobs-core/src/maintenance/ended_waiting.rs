//! A part of the admitter: ends jobs that wait no longer, because they have expired, or because their limit is full and
//! they do not wait for it (`on_full`). It runs after a pass that has found such jobs. If the worker dies in between,
//! the next pass of another worker finds them again.

use crate::recorder::{AttemptOutcome, Event};
use crate::state::JobState;
use crate::storage::{EndedWaiting, Ends, MOST_ENDED, StorageResult, WaitEnd};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// Ends all of them. Returns whether jobs were cancelled, so that others may start. `warning` is of those that the
/// database refuses to end.
pub(super) async fn end_waiting(shared: &Shared, end: WaitEnd, warning: &RateLimitedWarning) -> StorageResult<bool> {
    let mut has_freed = false;
    loop {
        let Ends { ended, refused } = shared.storage.end_waiting(end, shared.settings.retention).await?;
        if let Some(problem) = problem(&refused) {
            warning.report(&problem);
        }
        shared.work.record_ended(&ended);
        for EndedWaiting { queue, kind, state } in &ended {
            let outcome = match state {
                JobState::Discarded => AttemptOutcome::Discarded,
                _ => AttemptOutcome::Cancelled,
            };
            has_freed |= outcome == AttemptOutcome::Cancelled;
            shared.settings.recorders.record(|| Event::AttemptEnded {
                queue,
                kind,
                outcome,
                error: None,
                wait: None,
                run: None,
            });
        }
        if ended.len() < MOST_ENDED {
            return Ok(has_freed);
        }
    }
}

/// What the log says of the jobs that the database has refused to end.
fn problem(refused: &[String]) -> Option<String> {
    let (first, others) = refused.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        number => format!("; {number} more did not end either"),
    };
    Some(format!(
        "{first}{others}. Remove the cause, such as a trigger of the application: `worker doctor` names the jobs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_id::JobId;

    #[test]
    fn the_log_names_a_job_that_does_not_end() {
        let mut ends = Ends::default();
        assert_eq!(problem(&ends.refused), None);
        ends.refuse(JobId(7), "import", "slow", "not now");
        let one = "job 7 of kind `import` in queue `slow` did not end: not now. Remove the cause, such as a trigger of the application: \
                   `worker doctor` names the jobs";
        assert_eq!(problem(&ends.refused).as_deref(), Some(one));
        ends.refuse(JobId(8), "import", "slow", "not now");
        let two = problem(&ends.refused).unwrap();
        assert!(two.contains("not now; 1 more did not end either. Remove"), "{two}");
    }
}
