//! Conflicts: a transactional attempt that another transaction was in the way of is run again at once, in a new transaction.
//!
//! Nothing of it was committed, and what failed says nothing about the job. So this costs no attempt, as long as it happens no
//! more than [`RUNS`] times in a row. Then it ends as any failure does: a retry after the kind's backoff, with an attempt
//! consumed. Without that end two jobs that are always in each other's way would keep their slots for ever.

use std::time::Duration;

use crate::storage::{Storage, Transacted, Transaction};
use crate::telemetry;

/// How often an attempt is begun.
const RUNS: u32 = 10;
/// Half of the longest pause before the second run; before each further one it may be twice as long.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Runs the transaction until it ends otherwise, its lease is gone, or it was begun often enough. Its `abort` ends
/// it at any moment: a timeout counts from the first run on.
pub(super) async fn transact(storage: &dyn Storage, transaction: Transaction) -> Transacted {
    for run in 1.. {
        let (what, error) = match storage.transact(transaction.clone()).await {
            Transacted::Conflict { what, error } => (what, error),
            ended => return ended,
        };
        telemetry::conflict(transaction.lease, run, what);
        if run == RUNS {
            return Transacted::RolledBack(
                error.noted(format!("rolled back {RUNS} times in a row, at last by {what}")),
            );
        }
        tokio::select! {
            () = tokio::time::sleep(pause(run, rand::random())) => {}
            () = transaction.abort.cancelled() => return Transacted::Aborted,
        }
        // The conflict may have been with whoever took the lease.
        let (worker, job) = (transaction.lease.worker, transaction.lease.job);
        match storage.leases(worker, Some(&[job])).await {
            Ok(leases) if !leases.contains(&(job, transaction.lease.number)) => return Transacted::LeaseLost,
            // The finish will tell.
            _ => {}
        }
    }
    unreachable!("run number {RUNS} returns, whatever it came to")
}

/// `jitter` is from 0 up to but without 1.
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
