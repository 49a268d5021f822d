//! The registration of a batch handler, with the type of its jobs erased.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::any_connection::AnyConnection;
use crate::context::JobContext;
use crate::error::JobError;
use crate::outcome::Handled;

/// A batch handler, with the type of its jobs erased.
#[derive(Clone, Copy)]
pub struct BatchHandler {
    /// The most jobs of one call.
    pub most: usize,
    /// How long a call waits for more jobs if it has fewer.
    pub wait: Duration,
    /// The arguments whose values all jobs of one call share.
    pub by: &'static [&'static str],
    /// Runs one attempt of each job.
    pub call: BatchCall,
}

/// The function of a batch handler. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy)]
pub enum BatchCall {
    /// An `async fn` without a connection.
    Plain(fn(Vec<JobContext>) -> BoxFuture<'static, BatchAnswer>),
    /// A function that takes the connection. It runs inside the transaction that finishes all jobs of the batch.
    Transactional(TransactionalBatch),
}

/// The function of a batch handler that takes the connection.
/// Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy)]
pub enum TransactionalBatch {
    /// An `async fn`, run on the runtime.
    Async(for<'c> fn(AnyConnection<'c>, Vec<JobContext>) -> BoxFuture<'c, BatchAnswer>),
    /// A plain `fn`, run on a thread for handlers.
    Blocking(fn(AnyConnection<'_>, Vec<JobContext>) -> BatchAnswer),
}

/// How a call of a batch handler ended: one result per job, in the order of the jobs, or an error for all.
pub type BatchAnswer = Result<Vec<Handled>, FailedBatch>;

/// A call of a batch handler that failed for all its jobs.
#[derive(Debug)]
pub struct FailedBatch {
    /// The error.
    pub error: JobError,
    /// For each job, in their order, the error that it has instead: its arguments do not decode, and the handler did
    /// not get it.
    pub alone: Vec<Option<JobError>>,
}

impl FailedBatch {
    /// The result of each job.
    pub fn of_each(self) -> Vec<Handled> {
        let Self { error, alone } = self;
        alone.into_iter().map(|own| Err(own.unwrap_or_else(|| error.for_another_job()))).collect()
    }
}

impl BatchHandler {
    /// The values of the arguments in `by`, as JSON. Only jobs with the same values run together. A missing argument
    /// counts as null.
    pub(crate) fn key_of(&self, ctx: &JobContext) -> String {
        if self.by.is_empty() {
            return String::new();
        }
        // Arguments that do not decode run together: each of them fails by itself.
        let args: Map<String, Value> = serde_json::from_slice(&ctx.claimed().args).unwrap_or_default();
        let values: Vec<&Value> = self.by.iter().map(|name| args.get(*name).unwrap_or(&Value::Null)).collect();
        Value::from_iter(values.into_iter().cloned()).to_string()
    }
}

/// The result of a batch of one job. The outer error is one of the handler as a whole: it rolls a transaction back.
pub fn of_one_job(answer: BatchAnswer) -> Result<Handled, JobError> {
    match answer {
        Ok(results) => {
            Ok(results.into_iter().next().unwrap_or_else(|| Err(JobError::msg("the batch handler returned no result"))))
        }
        Err(FailedBatch { error, alone }) => Err(alone.into_iter().flatten().next().unwrap_or(error)),
    }
}
