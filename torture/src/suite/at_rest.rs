//! Waits until all jobs have ended.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::fixture::{Fixture, number};

/// How long a mutant may take to finish its jobs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a mutant may go without a change in the number of open jobs. Rescues, retries and rescans happen much
/// sooner, and the jobs that are waited for like this take less time.
const STANDSTILL: Duration = Duration::from_secs(10);
/// How long the jobs of tests with suspended workers may go without such a change: a lease, and the longest attempt.
const STUCK: Duration = Duration::from_secs(15);
/// A session counts as left in a transaction after one second.
const FORGOTTEN: Duration = Duration::from_millis(1200);

impl Fixture<'_> {
    /// Waits until no job waits or runs, and then long enough for open transactions to count as left open. Returns
    /// `false` if that takes longer than `limit`.
    pub(super) async fn at_rest(&self, limit: Duration) -> Result<bool> {
        // A mutant may have lost jobs, so the wait is shorter.
        match self.mutant() {
            Some(_) => self.rests(limit.min(PATIENCE), STANDSTILL).await,
            None => self.rests(self.patience(limit), self.patience(limit)).await,
        }
    }

    /// The same, but with the full `limit` for mutants that need the time before they differ from the product.
    pub(super) async fn at_rest_within(&self, limit: Duration) -> Result<bool> {
        let limit = if self.mutant().is_some() { limit } else { self.patience(limit) };
        self.rests(limit, limit).await
    }

    /// The same, but for mutants it gives up when the number of open jobs has not changed for longer than any job
    /// takes, even after a kill.
    pub(super) async fn at_rest_or_stuck(&self, limit: Duration) -> Result<bool> {
        match self.mutant() {
            Some(_) => self.rests(limit, STUCK).await,
            None => self.rests(self.patience(limit), self.patience(limit)).await,
        }
    }

    async fn rests(&self, limit: Duration, standstill: Duration) -> Result<bool> {
        const OPEN: &str = "select (select count(*) from jobs.held) + (select count(*) from jobs.ready)
            + (select count(*) from jobs.running)";
        let conn = self.connect().await?;
        let begun = Instant::now();
        let (mut open, mut since) = (number(&conn, OPEN).await?, begun);
        while open > 0 {
            if begun.elapsed() > limit || since.elapsed() > standstill {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = number(&conn, OPEN).await?;
            if now != open {
                (open, since) = (now, Instant::now());
            }
        }
        tokio::time::sleep(FORGOTTEN).await;
        Ok(true)
    }
}
