//! A part of the admitter: ends jobs that wait no longer, because they have expired, or because their limit is full and
//! they do not wait for it (`on_full`). It runs after a pass that has found such jobs. If the worker dies in between,
//! the next pass of another worker finds them again.

use crate::recorder::{AttemptOutcome, Event};
use crate::state::JobState;
use crate::storage::{EndedWaiting, Ends, MOST_ENDED, StorageResult, WaitEnd};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// Ends all of them. Returns whether jobs were cancelled, so that others may start. `warning` is of those that the
/// database refuses to end.
pub(super) async fn end_waiting(shared: &Shared, end: WaitEnd, warning: &RateLimitedWarning) -> StorageResult<bool> {
    let mut has_freed = false;
    loop {
        let Ends { ended, refused } = shared.storage.end_waiting(end, shared.settings.retention).await?;
        telemetry::refused_jobs(&refused, warning);
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
