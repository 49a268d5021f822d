//! What operators do to jobs through this process, for recorders.

use std::sync::Arc;

use crate::of_process::OfProcess;
use crate::recorder::{Event, Recorder};

static ACTIONS: OfProcess = OfProcess::new();

/// From now on, this process reports the actions of operators that it performs to this recorder, as
/// [`Event::OperatorAction`]. These are actions on single jobs, and batches of operations, even if another process has
/// started the operation. `worker run --listen` does this.
pub fn record_actions(recorder: Arc<dyn Recorder>) {
    ACTIONS.add(recorder);
}

/// After an action has changed jobs.
pub fn acted(action: &str, jobs: usize) {
    if jobs > 0 {
        ACTIONS.record(|recorders| recorders.record(|| Event::OperatorAction { action, jobs }));
    }
}
