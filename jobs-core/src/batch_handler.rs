//! The registration of a batch handler, with the type of its jobs erased.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use crate::any_connection::AnyConnection;
use crate::canonical::canonical;
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
        if self.by.is_empty() { String::new() } else { key(&ctx.claimed().args, self.by) }
    }
}

/// The values of these arguments, as JSON. Equal values have the same text.
fn key(args: &[u8], by: &[&str]) -> String {
    // Arguments that do not decode run together: each of them fails by itself.
    let args: BTreeMap<String, &RawValue> = serde_json::from_slice(args).unwrap_or_default();
    let text = |name: &&str| {
        let value = args.get(*name).map_or("null", |value| value.get());
        canonical(value).unwrap_or_else(|_| value.to_owned())
    };
    by.iter().map(text).collect::<Vec<_>>().join(",")
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

#[cfg(test)]
mod tests {
    use super::key;

    fn of(args: &str) -> String {
        key(args.as_bytes(), &["id", "name"])
    }

    #[test]
    fn different_values_have_different_keys_however_large_they_are() {
        let values = [
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551617",
            "340282366920938463463374607431768211455",
            "-170141183460469231731687303715884105728",
            "-170141183460469231731687303715884105727",
            "1e400",
            "1e401",
            "0.1",
            "0.10000000000000001",
            "1",
            "\"1\"",
            "null",
            "[1,2]",
            "[12]",
            r#"{"a":18446744073709551616}"#,
            r#"{"a":18446744073709551617}"#,
        ];
        let keys: std::collections::BTreeSet<String> =
            values.iter().map(|value| of(&format!("{{\"id\":{value},\"name\":1}}"))).collect();
        assert_eq!(keys.len(), values.len(), "{keys:?}");
        // The value of one argument is not taken for that of another.
        assert_ne!(of(r#"{"id":1,"name":null}"#), of(r#"{"id":null,"name":1}"#));
        assert_ne!(of(r#"{"id":"1,2"}"#), of(r#"{"id":1,"name":2}"#));
    }

    #[test]
    fn equal_values_have_the_same_key_however_they_are_written() {
        for (one, other) in [
            (r#"{"id":1}"#, r#"{"id": 1.0}"#),
            (r#"{"id":0}"#, r#"{"id":-0}"#),
            (r#"{"id":1e400}"#, r#"{"id":10e399}"#),
            (r#"{"id":{"a":1,"b":2}}"#, r#"{"id":{"b":2, "a":3, "a":1.0}}"#),
            (r#"{"id":"\u0041"}"#, r#"{"\u0069d":"A"}"#),
            (r#"{"id":1,"id":2}"#, r#"{"id":2}"#),
            (r#"{"id":1}"#, r#"{"id":1,"name":null,"other":[1e400]}"#),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
        assert_eq!(of("no json"), of("[7]"), "what does not decode runs together");
    }
}
