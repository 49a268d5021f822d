//! Places at which a test has the process die without a word, as a power failure would have it. They are compiled out
//! unless the feature `crash-points` is on, and then do nothing unless `JOBS_CRASH_AT` names one: `start`, or `start:3`
//! for the third time somebody comes there.

/// Ends the process here, if it was told to.
#[cfg(feature = "crash-points")]
pub fn crash_point(name: &str) {
    if is_due(name) {
        std::process::abort();
    }
}

/// Ends the process within the next milliseconds, if it was told to: while what follows is under way, or just before or after.
#[cfg(feature = "crash-points")]
pub fn crash_soon(name: &str) {
    if is_due(name) {
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(5).mul_f64(rand::random()));
            std::process::abort();
        });
    }
}

#[cfg(feature = "crash-points")]
fn is_due(name: &str) -> bool {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static PLAN: LazyLock<Option<(String, AtomicUsize)>> = LazyLock::new(|| {
        let plan = std::env::var("JOBS_CRASH_AT").ok()?;
        let (name, times) = plan.split_once(':').unwrap_or((&plan, "1"));
        Some((name.to_owned(), times.parse().unwrap_or(1).into()))
    });
    let Some((planned, left)) = &*PLAN else { return false };
    planned == name && left.fetch_sub(1, Ordering::AcqRel) == 1
}

/// Nothing: the feature `crash-points` is off.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub const fn crash_point(_name: &str) {}

/// Nothing: the feature `crash-points` is off.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub const fn crash_soon(_name: &str) {}
