//! The application whose worker processes the tests start, stop and kill.

use std::time::Duration;

use diesel_jobs::{JobContext, job};

/// Takes its time at the first attempt, and none at the later ones.
#[job]
pub async fn linger(millis: u64, ctx: &JobContext) {
    if ctx.attempt() == 1 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Never yields: the thread of the runtime that runs it runs nothing else.
#[job]
pub async fn hog(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Takes the whole process with it.
#[job(backoff = "fixed(10ms)")]
pub async fn crash() {
    std::process::abort();
}

/// Something to do for a worker that is to leave the other jobs alone.
#[job(queue = "aside")]
pub async fn idle() {}
