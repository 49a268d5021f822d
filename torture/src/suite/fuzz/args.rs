//! Fuzzes the arguments that a worker reads from the database and decodes for a handler.

use std::sync::Arc;

use chrono::Utc;
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::{
    ClaimedJob, Handler, JobContext, JobId, Lease, MAX_FAILURE_BYTES, Registered as _, States, WorkerId,
};
use tokio_util::sync::CancellationToken;
use torture::workload::handlers::Fuzzed;

pub(super) const SEEDS: &[&str] = &[
    r#"{"number":1,"text":"canary","list":[1.5,null],"work":{"number":1,"shape":"Async","millis":0,"later_millis":0,"polite":false,"failures":0,"panics":false,"snoozes":false,"cancels":false,"max_attempts":25,"priority":0},"map":{"a":[1,2]}}"#,
    r#"{"text":"canary"}"#,
    r#"["canary",1]"#,
    "{}",
    "null",
];
pub(super) const WORDS: &[&str] = &[
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-0",
    "99999999999999999999",
    "NaN",
    "\"canary\"",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\u{feff}",
    "\u{1F600}",
    " ",
    "\n",
];

/// Returns what was wrong: a panic, or an error that repeats the arguments or is too long.
pub(super) async fn complaint(input: &[u8]) -> Option<String> {
    let Handler::Async(handle) = Fuzzed::REGISTRATION.handler else { return Some("not an async handler".to_owned()) };
    let now = Utc::now();
    let job = ClaimedJob {
        lease: Lease { job: JobId(1), number: 1, worker: WorkerId::generate() },
        flags: JobFlags::default(),
        kind: Fuzzed::REGISTRATION.kind.to_owned(),
        queue: "default".to_owned(),
        priority: 0,
        args: input.to_vec(),
        attempt: 1,
        max_attempts: 25,
        run_at: now,
        enqueued_at: now,
        claimed_at: now,
        traceparent: None,
        start_by: None,
    };
    let ctx = JobContext::new(job, CancellationToken::new(), Arc::new(States::default()));
    let shown = String::from_utf8_lossy(input).into_owned();
    let handled = match tokio::spawn(async move { handle(ctx).await }).await {
        Ok(handled) => handled,
        Err(error) => return Some(format!("{error} at the arguments {shown:?}")),
    };
    let Err(error) = handled else { return None };
    // What is logged of an error may contain more than its message, and neither may repeat the arguments.
    let (message, logged) = (error.to_string(), format!("{error:?}"));
    if message.contains("canary") || logged.contains("canary") {
        return Some(format!("the error repeats the arguments: {message:?} {logged:?}"));
    }
    // The message alone: with RUST_BACKTRACE=1 the other one ends with a backtrace, whose length depends on the paths
    // of the machine.
    (message.len() > MAX_FAILURE_BYTES).then(|| format!("the error has {} bytes, at {shown:?}", message.len()))
}
