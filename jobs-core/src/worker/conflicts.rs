//! Conflicts: a transactional attempt that failed because of another transaction runs again after a short pause, in a
//! new transaction. So does the loading of rows before a handler.
//!
//! Nothing of the failed run was committed, and its error says nothing about the job. So a conflict consumes no
//! attempt, up to [`RUNS`] runs in a row. After that the attempt ends like any failure: a retry after the kind's
//! backoff, with one attempt consumed. Without this limit, two jobs that always conflict with each other would keep
//! their slots for ever.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::valid_leases::valid_leases;
use crate::context::JobContext;
use crate::lease::Lease;
use crate::storage::{Loaded, Loading, Storage, Transacted, Transaction};
use crate::telemetry;

/// How many times an attempt is begun at most.
const RUNS: u32 = 10;
/// Half of the longest pause before the second run. The longest pause doubles before each further run.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Runs the transaction until it ends without a conflict, a lease is gone, or it was begun [`RUNS`] times. Its
/// `abort` token ends it at any moment, because a timeout counts from the first run on.
pub(super) async fn transact(storage: &dyn Storage, transaction: Transaction) -> Transacted {
    let mut run = 1;
    loop {
        let (what, error) = match storage.transact(transaction.clone()).await {
            Transacted::Conflict { what, error } => (what, error),
            ended => return ended,
        };
        let leases: Vec<Lease> = transaction.jobs.iter().map(JobContext::lease).collect();
        telemetry::conflict(&leases, run, what);
        if run == RUNS {
            return Transacted::RolledBack(
                error.noted(format!("rolled back {RUNS} times in a row, at last by {what}")),
            );
        }
        if !waits(run, &transaction.abort).await {
            return Transacted::Aborted;
        }
        run += 1;
        // The conflict may have been with the transaction that took a lease.
        match valid_leases(storage, &leases).await {
            Ok(valid) if valid.len() < leases.len() => return Transacted::LeaseLost,
            // The finish checks the leases again.
            _ => {}
        }
    }
}

/// Loads the rows of a handler until that ends without a conflict, or it was begun [`RUNS`] times. Its `abort` token
/// ends it at any moment.
pub(super) async fn load(storage: &dyn Storage, loading: Loading) -> Loaded {
    let mut run = 1;
    loop {
        let (what, error) = match storage.load(loading.clone()).await {
            Loaded::Conflict { what, error } => (what, error),
            ended => return ended,
        };
        telemetry::conflict(&[loading.lease], run, what);
        if run == RUNS {
            let note = format!("its rows could not be loaded {RUNS} times in a row, at last because of {what}");
            return Loaded::Ended(Err(error.noted(note)));
        }
        if !waits(run, &loading.abort).await {
            return Loaded::Aborted;
        }
        run += 1;
    }
}

/// Waits before the next run. Returns `false` if the token ends the wait.
async fn waits(run: u32, abort: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(pause(run, rand::random())) => true,
        () = abort.cancelled() => false,
    }
}

/// `jitter` is at least 0 and less than 1.
fn pause(run: u32, jitter: f64) -> Duration {
    PAUSE.saturating_mul(1 << run.min(10)).min(LONGEST_PAUSE).mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_an_end() {
        assert_eq!(pause(1, 0.5), Duration::from_millis(10));
        assert!(pause(3, 0.9) > pause(2, 0.9));
        assert!((1..RUNS).map(|run| pause(run, 1.0)).sum::<Duration>() < Duration::from_secs(4));
    }
}
