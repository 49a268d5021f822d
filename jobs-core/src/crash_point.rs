//! Crash points: places at which a test can make the process abort without any clean-up, as in a power failure. Without
//! the feature `crash-points` they are empty. With it, the variable `JOBS_CRASH_AT` selects one: `start`, or `start:3`
//! for the third time that the process reaches it.

/// Aborts the process here, if `JOBS_CRASH_AT` selects this point.
#[cfg(feature = "crash-points")]
pub fn crash_point(name: &str) {
    if is_due(name) {
        std::process::abort();
    }
}

/// Aborts the process within 5 ms, if `JOBS_CRASH_AT` selects this point: before, during or after the next step.
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

/// Does nothing, because the feature `crash-points` is off.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub const fn crash_point(_name: &str) {}

/// Does nothing, because the feature `crash-points` is off.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub const fn crash_soon(_name: &str) {}
