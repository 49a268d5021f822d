//! The pruner of the history: joins rows of several workers and minutes to rows of a longer time, and deletes expired
//! rows. Each statement reads a bounded number of rows.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::history::FOLDS;
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

const EVERY: Duration = Duration::from_secs(60);
const FIRST: Duration = Duration::from_secs(10);
/// Rows per statement.
const BATCH: usize = 1000;
const BETWEEN_BATCHES: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("fold_history");
    let mut wait = FIRST;
    // Workers that started together must not all join the same rows at the same moment.
    while pause(wait.mul_f64(1.0 + rand::random::<f64>() / 2.0), &stop).await {
        wait = EVERY;
        // While the database is frozen, operators may want to see everything.
        if *shared.frozen.borrow() {
            continue;
        }
        for fold in FOLDS {
            while let Some(1..) = report(&warning, shared.storage.fold_history(fold, BATCH).await)
                && pause(BETWEEN_BATCHES, &stop).await
            {}
        }
        while let Some(1..) = report(&warning, shared.storage.prune_history(shared.settings.keep_history, BATCH).await)
            && pause(BETWEEN_BATCHES, &stop).await
        {}
    }
}

fn report(warning: &RateLimitedWarning, rows: crate::storage::StorageResult<usize>) -> Option<usize> {
    rows.inspect_err(|problem| warning.report(problem)).ok()
}
