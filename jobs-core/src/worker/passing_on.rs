//! Finishes that claim. A finish passes the permits of completed jobs on to held jobs. While no other job waits for
//! this worker, the same statement claims those held jobs. So a key with a limit needs one round trip for each
//! generation of its jobs, not a finish and a claim.

use std::time::Duration;

use super::report::Report;
use super::shared::Shared;
use crate::crash_point::crash_point;
use crate::outcome::Finish;
use crate::storage::{Claim, Finished, PassOn, StorageResult};

/// A worker with more queues claims in the usual way: each finish would have to name all queues.
const MOST_QUEUES: usize = 100;

impl Shared {
    /// Writes the finishes. Returns the answer, the releases of the jobs that were claimed and cannot run here, and how
    /// many jobs were claimed.
    pub(super) async fn finish_and_claim(&self, batch: &[Finish]) -> StorageResult<(Finished, Vec<Report>, usize)> {
        let Some(next) = self.next_for(batch) else {
            return Ok((self.storage.finish(batch, PassOn::Permits).await?, Vec::new(), 0));
        };
        let _claiming = self.claiming.read().await;
        let answer = self.storage.finish(batch, PassOn::PermitsAndClaim(&next)).await;
        // The statement may have claimed jobs although its reply was lost.
        let mut finished = answer.inspect_err(|_| self.claim_has_failed())?;
        let claimed = std::mem::take(&mut finished.claimed);
        let number = claimed.len();
        if number == 0 {
            return Ok((finished, Vec::new(), 0));
        }
        crash_point("claimed");
        self.counters.count_claimed(number);
        let mut refused = self.queues.push(self.take(claimed));
        // After this the fetcher releases no more prefetched jobs.
        if self.phases.quiet().is_cancelled() {
            refused.extend(self.queues.overdue(Duration::ZERO));
        }
        self.queues.notify();
        Ok((finished, refused.into_iter().map(Report::release).collect(), number))
    }

    /// What these finishes may claim. `None` if other jobs may wait, if no permit is passed on, or if the queues take
    /// turns.
    fn next_for(&self, batch: &[Finish]) -> Option<Claim> {
        if !batch.iter().any(|one| one.flags.has_permit()) || self.queues.len() > MOST_QUEUES {
            return None;
        }
        if self.settings.slots_total.is_some() || self.phases.quiet().is_cancelled() {
            return None;
        }
        self.nothing_waits.is_true().then(|| self.next_claim()).filter(|next| !next.wanted.is_empty())
    }
}
