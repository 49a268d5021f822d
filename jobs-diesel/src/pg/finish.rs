//! `finish`: outputs are stored before the finishes, and what the jobs no longer need is deleted after them.

use std::borrow::Cow;
use std::collections::HashSet;

use diesel_async::RunQueryDsl;
use diesel_jobs_core::storage::{Claim, Finished, PassOn, StorageResult};
use diesel_jobs_core::{Finish, JobId};

use super::queries::expire::{self, ForgetQuery};
use super::queries::finish_batch;
use super::queries::store_outputs::StoreOutputsQuery;
use super::refused::run_apart;
use super::{PgStorage, run};
use crate::meaning::row;

/// The finishes of the other jobs.
fn without<'a>(batch: &[Finish], moved: &[JobId]) -> Cow<'a, [Finish]> {
    let moved: HashSet<&JobId> = moved.iter().collect();
    batch.iter().filter(|one| !moved.contains(&one.lease.job)).cloned().collect()
}

impl PgStorage {
    pub(super) async fn finish_all(&self, batch: &[Finish], pass_on: PassOn<'_>) -> StorageResult<Finished> {
        if batch.is_empty() {
            return Ok(Finished::default());
        }
        self.clear_for_retries(batch).await?;
        let stores = StoreOutputsQuery::for_batch(batch);
        let stripped: Vec<Finish>;
        let batch = if stores.is_empty() {
            batch
        } else {
            for store in stores {
                run!(self, "store_outputs", conn => RunQueryDsl::execute(store, conn))?;
            }
            stripped = batch.iter().map(Finish::without_output).collect();
            &stripped
        };
        let mut finished = match pass_on {
            PassOn::PermitsAndClaim(next) => self.pass_on(batch, Some(next)).await?,
            PassOn::Permits => self.pass_on(batch, None).await?,
            PassOn::Nothing => Finished::default(),
        };
        if finished.moved.len() < batch.len() {
            // Batches without limits are neither searched nor copied.
            let rest = if finished.moved.is_empty() { Cow::Borrowed(batch) } else { without(batch, &finished.moved) };
            let moved =
                run_apart!(self, "finish", self.set_running_apart(), conn => finish_batch::finish(conn, &rest))?;
            finished.moved.extend(moved);
            finished.is_free |= rest.iter().any(|one| one.flags.gives_back());
        }
        let started = expire::started(batch);
        if !started.is_empty()
            && let Err(problem) =
                run!(self, "forget_expiry", conn => RunQueryDsl::execute(ForgetQuery { ids: started }, conn))
        {
            tracing::debug!(target: "diesel_jobs", { %problem }, "the times at which jobs expire are deleted later");
        }
        Ok(finished)
    }

    /// Completes the jobs with limits, in a transaction of its own: if the server answers with an error, whatever it
    /// is, the cause may be a held job. Then it moves no job, and `finish` does, which reads no held job.
    async fn pass_on(&self, batch: &[Finish], next: Option<&Claim>) -> StorageResult<Finished> {
        let Some(complete) = finish_batch::limited(batch) else { return Ok(Finished::default()) };
        match run!(self, "pass_on", conn => complete.complete_limited(next, conn)) {
            Err(problem) if row::is_answer(&problem) => {
                tracing::debug!(target: "diesel_jobs", { %problem }, "the permits of completed jobs are freed, and not passed on");
                Ok(Finished::default())
            }
            finished => finished,
        }
    }
}
