//! How a storage measures the times that its later work depends on.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::time::{Duration, Instant};

/// This limit only ends a test that hangs.
#[cfg(feature = "postgres")]
const PATIENCE: Duration = Duration::from_secs(600);

/// A storage learns from the time that its statements take: after slow ones, claims read less, or less often. It also
/// gives up statements that take too long. So what one claim finds depends on the speed of the machine. The storage of
/// a test that asserts one exact outcome has a stopwatch that stands still. Then no statement is slow, however long it
/// takes. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug)]
pub enum Stopwatch {
    /// The stopwatch of every storage outside of tests.
    Runs,
    /// Shows zero at all times.
    StandsStill,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Stopwatch {
    /// How long work took that began at this time.
    pub(crate) fn since(self, began: Instant) -> Duration {
        match self {
            Self::Runs => began.elapsed(),
            Self::StandsStill => Duration::ZERO,
        }
    }

    /// The time within which something must be done: this limit, or one that no machine exceeds.
    #[cfg(feature = "postgres")]
    pub(crate) fn limit(self, limit: Duration) -> Duration {
        match self {
            Self::Runs => limit,
            Self::StandsStill => PATIENCE,
        }
    }
}
