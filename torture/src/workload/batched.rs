//! Jobs that run in batches: one call of a handler and one transaction for several jobs. Each of them writes its effect
//! and ends by itself.

use std::time::Duration;

use diesel::PgConnection;
use diesel_async::AsyncPgConnection;
use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatchIn, HandleBlockingBatchIn, Handled};
use diesel_jobs::{Job, JobContext, JobError, Outcome};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::handlers::{SOON, effect, end};
use super::work::Work;
use crate::history::{Recorder, What};

/// A first attempt of such a number lets its whole batch fail: one job in this many.
const SPOILS: i64 = 60;

/// Runs on the runtime.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(batch(max = 8, wait = "20ms"), connection = AsyncPgConnection, backoff = "fixed(20ms)")]
pub struct Batched {
    /// What it does.
    pub work: Work,
}

/// Runs on a thread for handlers.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(batch(max = 8, wait = "20ms"), blocking = true, connection = PgConnection, backoff = "fixed(20ms)")]
pub struct BatchedBlocking {
    /// What it does.
    pub work: Work,
}

impl HandleBatchIn<AsyncPgConnection> for Batched {
    async fn handle(jobs: Vec<Self>, conn: &mut AsyncPgConnection, ctx: BatchContext) -> BatchHandled {
        let batch = Batch::new(jobs.into_iter().map(|job| job.work), &ctx)?;
        batch.say(&vec![What::Start; batch.members.len()]).await?;
        for (work, ctx) in batch.writers() {
            diesel_async::RunQueryDsl::execute(effect!(work, ctx), conn).await.map_err(JobError::new)?;
        }
        tokio::time::sleep(batch.time()).await;
        batch.say(&batch.ends).await?;
        batch.answer()
    }
}

impl HandleBlockingBatchIn<PgConnection> for BatchedBlocking {
    fn handle(jobs: Vec<Self>, conn: &mut PgConnection, ctx: BatchContext) -> BatchHandled {
        let batch = Batch::new(jobs.into_iter().map(|job| job.work), &ctx)?;
        Handle::current().block_on(batch.say(&vec![What::Start; batch.members.len()]))?;
        for (work, ctx) in batch.writers() {
            diesel::RunQueryDsl::execute(effect!(work, ctx), conn).map_err(JobError::new)?;
        }
        std::thread::sleep(batch.time());
        Handle::current().block_on(batch.say(&batch.ends))?;
        batch.answer()
    }
}

/// The jobs of one call.
struct Batch {
    members: Vec<(Work, JobContext)>,
    /// How each attempt ends.
    ends: Vec<What>,
    /// Whether all attempts fail because of one of them.
    is_spoilt: bool,
    recorder: Recorder,
}

impl Batch {
    fn new(works: impl Iterator<Item = Work>, ctx: &BatchContext) -> Result<Self, JobError> {
        let recorder = ctx.state::<Recorder>().cloned().ok_or_else(|| JobError::msg("the worker has no recorder"))?;
        let members: Vec<(Work, JobContext)> = works.zip(ctx.jobs().iter().cloned()).collect();
        let is_spoilt = members.iter().any(|(work, ctx)| work.number % SPOILS == 0 && ctx.attempt() == 1);
        let end = |(work, ctx): &(Work, JobContext)| if is_spoilt { What::Fail } else { end(work, ctx) };
        Ok(Self { ends: members.iter().map(end).collect(), members, is_spoilt, recorder })
    }

    /// Records an event of each job. Returns when all are stored.
    async fn say(&self, whats: &[What]) -> Result<(), JobError> {
        let mut said = Vec::with_capacity(whats.len());
        for ((work, ctx), what) in self.members.iter().zip(whats) {
            said.push(self.recorder.say(ctx, work.number, *what));
        }
        try_join_all(said).await.map_err(JobError::new)?;
        Ok(())
    }

    /// Those that write their effect: it must be kept if they complete, and rolled back if the whole batch fails. What
    /// the others write would be committed, too.
    fn writers(&self) -> Vec<&(Work, JobContext)> {
        let writes = |(_, end): &(&(Work, JobContext), &What)| self.is_spoilt || **end == What::Ok;
        self.members.iter().zip(&self.ends).filter(writes).map(|(member, _)| member).collect()
    }

    /// How long the call takes: as long as the longest of its attempts.
    fn time(&self) -> Duration {
        self.members.iter().map(|(work, ctx)| work.time(ctx.attempt())).max().unwrap_or_default()
    }

    fn answer(&self) -> BatchHandled {
        if self.is_spoilt {
            return Err(JobError::msg("planned, for the whole batch"));
        }
        Ok(self.members.iter().zip(&self.ends).map(|((_, ctx), end)| answer(*end, ctx)).collect())
    }
}

fn answer(end: What, ctx: &JobContext) -> Handled {
    match end {
        What::Snooze => Ok(Outcome::Snooze(SOON)),
        What::Cancel => Ok(Outcome::Cancel("planned".to_owned())),
        // The checker reads the lease number from the stored failure.
        What::Fail => Err(JobError::msg(format!("planned, under lease {};", ctx.lease().number))),
        What::Start | What::Ok | What::Stopped => Ok(Outcome::Complete),
    }
}
