//! Batch handlers: one call with the arguments of several jobs of a kind, and one result per job.
//!
//! Each job keeps its own attempt: its lease, its layers, its retries. Only the call is shared.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::context::JobContext;
use crate::error::JobError;
use crate::handler::Registered;
use crate::outcome::{Handled, Outcome};
use crate::panics;

/// The handler of a type with `#[job(batch(max = 100))]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for batches",
    label = "needs `impl HandleBatch for {Self}`",
    note = "write `impl HandleBatch for {Self} {{ async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {{ .. }} }}`, or leave `batch` out"
)]
pub trait HandleBatch: crate::job::Job {
    /// Runs one attempt of each of these jobs. Returns one result per job, in the order of the jobs. With an error, the attempts of
    /// all jobs fail.
    fn handle(jobs: Vec<Self>, ctx: BatchContext) -> impl Future<Output = BatchHandled> + Send;
}

/// What a batch handler returns: one result per job, in the order of the jobs, or an error for all.
pub type BatchHandled = Result<Vec<Handled>, JobError>;

/// The contexts of the jobs of a batch.
#[derive(Clone, Debug)]
pub struct BatchContext(Arc<[JobContext]>);

impl BatchContext {
    /// The context of each job, in the order of the jobs.
    pub fn jobs(&self) -> &[JobContext] {
        &self.0
    }

    /// The value of this type that the worker was given with `WorkerBuilder::state`, or that a layer has added to the first job.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.first().and_then(|ctx| ctx.state())
    }

    /// The answer that completes all jobs.
    pub fn complete_all(&self) -> BatchHandled {
        Ok(self.0.iter().map(|_| Ok(Outcome::Complete)).collect())
    }
}

/// Decodes the jobs and calls their handler. Jobs whose arguments do not decode fail by themselves.
pub fn handle_batch<J: HandleBatch + Registered>(jobs: Vec<JobContext>) -> BoxFuture<'static, Vec<Handled>> {
    Box::pin(async move {
        let mut results: Vec<Option<Handled>> = Vec::with_capacity(jobs.len());
        let (mut decoded, mut contexts) = (Vec::new(), Vec::new());
        for ctx in jobs {
            // Upgrades of earlier versions are the application's code.
            match panics::caught_call(|| J::decode(&ctx)).and_then(|decoded| decoded) {
                Ok(job) => {
                    decoded.push(job);
                    contexts.push(ctx);
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let count = contexts.len();
        let handled = match count {
            0 => Ok(Vec::new()),
            _ => {
                let call = async move { J::handle(decoded, BatchContext(contexts.into())).await };
                panics::caught_future(call).await.unwrap_or_else(Err)
            }
        };
        let handled = match handled {
            Ok(handled) if handled.len() != count => Err(wrong_number(J::KIND, handled.len(), count)),
            handled => handled,
        };
        match handled {
            Ok(handled) => {
                let mut handled = handled.into_iter();
                // As many results as there are places.
                results.into_iter().filter_map(|result| result.or_else(|| handled.next())).collect()
            }
            Err(error) => {
                results.into_iter().map(|result| result.unwrap_or_else(|| Err(error.for_another_job()))).collect()
            }
        }
    })
}

fn wrong_number(kind: &str, results: usize, jobs: usize) -> JobError {
    JobError::msg(format!(
        "the batch handler of `{kind}` returned {results} results for {jobs} jobs, so it is not known which job they belong to; return \
         one result per job, in the order of the jobs"
    ))
}
