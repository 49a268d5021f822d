//! A part of the admitter: ends jobs whose limit is full and that do not wait (`on_full`). It runs after a pass that
//! has left such jobs held. If the worker dies in between, the next pass of another worker finds them again.

use crate::recorder::{AttemptOutcome, Event};
use crate::state::JobState;
use crate::storage::{EndedByLimit, MOST_ENDED, StorageResult};
use crate::worker::shared::Shared;

/// Returns whether jobs were cancelled, so that others may start.
pub(super) async fn end_full(shared: &Shared) -> StorageResult<bool> {
    let mut has_freed = false;
    loop {
        let ended = shared.storage.end_full(shared.settings.retention).await?;
        shared.work.record_ended(&ended);
        for EndedByLimit { queue, kind, state } in &ended {
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
