//! What a run that ends by itself logs about its end.

use std::time::Duration;

use tracing::{info, warn};

pub(crate) fn nothing_left(due_only: bool) {
    info!(target: "diesel_jobs", "no job is {}: the worker ends", if due_only { "due" } else { "left" });
}

pub(crate) fn no_slot_left() {
    warn!(target: "diesel_jobs", "the run ends although jobs may be due in queues without a free slot: an operator has set their slots to 0, or handlers \
         that the worker gave up on have not returned");
}

pub(crate) fn ticks_unknown(waited: Duration) {
    warn!(target: "diesel_jobs", "the run ends although ticks of schedules may be due: for {} s, a session has kept a schedule locked, or ticks could not be \
         enqueued", waited.as_secs());
}

pub(crate) fn rescue_awaited() {
    info!(target: "diesel_jobs", "the run continues until the jobs of a dead worker have been rescued");
}

pub(crate) fn rescue_not_awaited() {
    warn!(target: "diesel_jobs", "the run ends although the jobs of a dead worker are not rescued: a session has kept them locked, the database has refused to move them, or heartbeats of this worker failed");
}
