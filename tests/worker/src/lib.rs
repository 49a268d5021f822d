//! An application whose worker processes the tests start, stop and kill.

use std::path::{Path, PathBuf};
use std::time::Duration;

use diesel_jobs::{JobContext, job};

/// Sleeps at the first attempt, and ends at once at later ones.
#[job]
pub async fn linger(millis: u64, ctx: &JobContext) {
    if ctx.attempt() == 1 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Never yields until this file is there. So the runtime's thread that runs it runs nothing else.
#[job]
pub async fn hog(until_there: String) {
    tracing::info!("the handler has begun");
    let _ = std::fs::write(Hog::begun(Path::new(&until_there)), "");
    while !Path::new(&until_there).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Hog {
    /// The file that is there as soon as the handler has begun.
    pub fn begun(until_there: &Path) -> PathBuf {
        until_there.with_extension("begun")
    }
}

/// A plain function that never returns.
#[job]
pub fn hang() {
    tracing::info!("the handler has begun");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Aborts the whole process.
#[job(backoff = "fixed(10ms)")]
pub async fn crash() {
    std::process::abort();
}

/// A plain function that outlives its timeout.
#[job(timeout = "200ms", max_attempts = 1)]
pub fn outlive(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Yields, so it ends at its timeout.
#[job(timeout = "200ms", max_attempts = 1)]
pub async fn oversleep() {
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

/// A job for workers that must not claim the other jobs.
#[job(queue = "aside")]
pub async fn idle() {}
