//! Batch handlers: one call receives the arguments of several jobs of a kind, and returns one result per job.
//!
//! Each job still has an attempt of its own, with its own lease, layers and retries. The jobs of a batch share only the
//! call and, if the handler takes a connection, the transaction.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::any_connection::AnyConnection;
use crate::batch_handler::{BatchAnswer, FailedBatch};
use crate::context::JobContext;
use crate::error::JobError;
use crate::handler::Registered;
use crate::outcome::{Handled, Outcome};
use crate::panics;

/// The handler of a type with `#[job(batch(max = 100))]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for batches",
    label = "needs `impl HandleBatch for {Self}`",
    note = "write `impl HandleBatch for {Self} {{ async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {{ .. }} }}`, or leave `batch` out",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{BatchContext, BatchHandled, HandleBatch}};`"
)]
pub trait HandleBatch: crate::job::Job {
    /// Runs one attempt of each of these jobs. Returns one result per job, in the order of the jobs, or an error, with
    /// which the attempts of all jobs fail.
    fn handle(jobs: Vec<Self>, ctx: BatchContext) -> impl Future<Output = BatchHandled> + Send;
}

/// The handler of a type with `#[job(batch(max = 100), connection = C)]`. It runs inside the transaction that finishes
/// all jobs of the batch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for batches that takes a `{C}`",
    label = "needs `impl HandleBatchIn<{C}> for {Self}`",
    note = "write `impl HandleBatchIn<{C}> for {Self} {{ async fn handle(jobs: Vec<Self>, conn: &mut {C}, ctx: BatchContext) -> BatchHandled {{ .. }} }}`",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{BatchContext, BatchHandled, HandleBatchIn}};`"
)]
pub trait HandleBatchIn<C>: crate::job::Job {
    /// Runs one attempt of each of these jobs. Returns one result per job, in the order of the jobs: the writes of the
    /// handler are then committed together with the ends of all attempts, including those that failed. If it returns an
    /// error instead, its writes are rolled back, and the attempts of all jobs fail.
    fn handle(jobs: Vec<Self>, conn: &mut C, ctx: BatchContext) -> impl Future<Output = BatchHandled> + Send;
}

/// The handler of a type with `#[job(batch(max = 100), blocking = true, connection = C)]`: a plain function, which may
/// block its thread. It runs inside the transaction that finishes all jobs of the batch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for batches that takes a `{C}` and may block",
    label = "needs `impl HandleBlockingBatchIn<{C}> for {Self}`",
    note = "write `impl HandleBlockingBatchIn<{C}> for {Self} {{ fn handle(jobs: Vec<Self>, conn: &mut {C}, ctx: BatchContext) -> BatchHandled {{ .. }} }}`",
    note = "these names are in `diesel_jobs::handler`: `use diesel_jobs::handler::{{BatchContext, BatchHandled, HandleBlockingBatchIn}};`"
)]
pub trait HandleBlockingBatchIn<C>: crate::job::Job {
    /// Runs one attempt of each of these jobs, as [`HandleBatchIn::handle`] does.
    fn handle(jobs: Vec<Self>, conn: &mut C, ctx: BatchContext) -> BatchHandled;
}

/// What a batch handler returns: one result per job, in the order of the jobs, or one error for all of them.
pub type BatchHandled = Result<Vec<Handled>, JobError>;

/// The contexts of the jobs of a batch.
#[derive(Clone, Debug)]
pub struct BatchContext(Arc<[JobContext]>);

impl BatchContext {
    /// The context of each job, in the order of the jobs.
    pub fn jobs(&self) -> &[JobContext] {
        &self.0
    }

    /// The value of type `T` that a layer has added to the attempt of the first job or, if there is none, that the
    /// worker was given with `WorkerBuilder::state`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.first().and_then(|ctx| ctx.state())
    }

    /// The result that completes all jobs of the batch.
    pub fn complete_all(&self) -> BatchHandled {
        Ok(self.0.iter().map(|_| Ok(Outcome::Complete)).collect())
    }
}

/// Takes the connection out of its erased type.
type Open<C> = for<'c> fn(AnyConnection<'c>, &JobContext) -> Result<&'c mut C, JobError>;

/// Decodes the jobs and calls their handler. Jobs whose arguments do not decode fail by themselves.
pub fn handle_batch<J: HandleBatch + Registered>(jobs: Vec<JobContext>) -> BoxFuture<'static, BatchAnswer> {
    Box::pin(async move {
        let (jobs, ctx, alone) = decoded::<J>(jobs);
        let handled = match jobs.is_empty() {
            true => Ok(Vec::new()),
            false => panics::caught_future(async move { J::handle(jobs, ctx).await }).await.unwrap_or_else(Err),
        };
        answer(J::KIND, handled, alone)
    })
}

/// The same for a handler that takes the connection.
pub fn handle_batch_in<'c, J: HandleBatchIn<C> + Registered, C: Send + 'static>(
    connection: AnyConnection<'c>,
    jobs: Vec<JobContext>,
    open: Open<C>,
) -> BoxFuture<'c, BatchAnswer> {
    Box::pin(async move {
        let (jobs, ctx, alone) = decoded::<J>(jobs);
        let handled = match ctx.jobs().first().map(|first| open(connection, first)) {
            None => Ok(Vec::new()),
            Some(Err(error)) => Err(error),
            Some(Ok(conn)) => {
                panics::caught_future(async move { J::handle(jobs, conn, ctx).await }).await.unwrap_or_else(Err)
            }
        };
        answer(J::KIND, handled, alone)
    })
}

/// The same for a plain function that takes the connection.
pub fn handle_blocking_batch_in<J: HandleBlockingBatchIn<C> + Registered, C: Send + 'static>(
    connection: AnyConnection<'_>,
    jobs: Vec<JobContext>,
    open: Open<C>,
) -> BatchAnswer {
    let (jobs, ctx, alone) = decoded::<J>(jobs);
    let handled = match ctx.jobs().first().map(|first| open(connection, first)) {
        None => Ok(Vec::new()),
        Some(Err(error)) => Err(error),
        Some(Ok(conn)) => panics::caught_call(|| J::handle(jobs, conn, ctx)).unwrap_or_else(Err),
    };
    answer(J::KIND, handled, alone)
}

/// Decodes the jobs. Returns those that decode with their contexts, and for each job the error if it does not.
fn decoded<J: Registered>(contexts: Vec<JobContext>) -> (Vec<J>, BatchContext, Vec<Option<JobError>>) {
    let (mut jobs, mut of_jobs, mut alone) = (Vec::new(), Vec::new(), Vec::with_capacity(contexts.len()));
    for ctx in contexts {
        // Upgrades of earlier versions are the application's code.
        match panics::caught_call(|| J::decode(&ctx)).and_then(|decoded| decoded) {
            Ok(job) => {
                jobs.push(job);
                of_jobs.push(ctx);
                alone.push(None);
            }
            Err(error) => alone.push(Some(error)),
        }
    }
    (jobs, BatchContext(of_jobs.into()), alone)
}

/// What all jobs of the call get: their own error, or their place in what the handler has returned.
fn answer(kind: &str, handled: BatchHandled, alone: Vec<Option<JobError>>) -> BatchAnswer {
    let count = alone.iter().filter(|error| error.is_none()).count();
    match handled {
        Ok(handled) if handled.len() == count => {
            let mut handled = handled.into_iter();
            // As many results as there are places.
            Ok(alone.into_iter().filter_map(|own| own.map(Err).or_else(|| handled.next())).collect())
        }
        Ok(handled) => Err(FailedBatch { error: wrong_number(kind, handled.len(), count), alone }),
        Err(error) => Err(FailedBatch { error, alone }),
    }
}

fn wrong_number(kind: &str, results: usize, jobs: usize) -> JobError {
    JobError::msg(format!(
        "the batch handler of `{kind}` returned {results} results for {jobs} jobs, so it is not known which job they belong to; return \
         one result per job, in the order of the jobs"
    ))
}
