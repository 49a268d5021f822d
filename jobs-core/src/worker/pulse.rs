//! How the worker's heartbeat goes, for those who must not act while it does not.
//!
//! It also tells when the database's clock moved, or when the database stood still for a while without a failure: all
//! heartbeats look old then, and this worker rescues nobody for a lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// When the heartbeat last reached the database, and when it last failed to; by the monotonic clock.
#[derive(Default)]
pub(crate) struct Pulse {
    origin: OnceLock<Instant>,
    last_beat_ms: AtomicU64,
    last_failure_ms: AtomicU64,
    /// The newest beat under the present id, and the one before.
    beats: Mutex<[Option<Beat>; 2]>,
}

/// A beat that reached the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    /// By the monotonic clock, before it was sent.
    pub(crate) sent: Instant,
    /// By the database's clock.
    pub(crate) at: DateTime<Utc>,
}

impl Pulse {
    fn now_ms(&self) -> u64 {
        let since = self.origin.get_or_init(Instant::now).elapsed();
        // One more than the truth: zero means never.
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    pub(super) fn beat(&self) {
        self.last_beat_ms.store(self.now_ms(), Ordering::Release);
    }

    /// A beat was answered at this moment. One that took longer than `limit`, or between which and the one before the
    /// database's clock went on by so much more than ours, counts as a failed one, too.
    pub(super) fn answered(&self, beat: Beat, now: Instant, limit: Duration) {
        self.beat();
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = |since: Instant| now.saturating_duration_since(since);
        let stepped = beats[0].is_some_and(|before| {
            (beat.at - before.at).to_std().is_ok_and(|theirs| theirs > ours(before.sent) + limit)
        });
        if stepped || ours(beat.sent) > limit {
            self.failed();
        }
        *beats = [Some(beat), beats[0]];
    }

    /// The newest beat, once there was another before it, so that a step of the database's clock between them would have
    /// been seen.
    pub(crate) fn steady(&self) -> Option<Beat> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats[1].and(beats[0])
    }

    /// The worker goes on under another id.
    pub(super) fn restart(&self) {
        *self.beats.lock().unwrap_or_else(PoisonError::into_inner) = [None; 2];
        self.failed();
    }

    /// From now on this worker takes nobody for dead, for a lease.
    pub(crate) fn failed(&self) {
        self.last_failure_ms.store(self.now_ms(), Ordering::Release);
    }

    fn within(&self, at: &AtomicU64, span: Duration) -> bool {
        let at = at.load(Ordering::Acquire);
        at > 0 && u128::from(self.now_ms().saturating_sub(at)) <= span.as_millis()
    }

    /// Whether a beat succeeded within this span.
    pub(crate) fn alive_within(&self, span: Duration) -> bool {
        self.within(&self.last_beat_ms, span)
    }

    /// Whether a beat failed within this span.
    pub(crate) fn failed_within(&self, span: Duration) -> bool {
        self.within(&self.last_failure_ms, span)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);
    const LEASE: Duration = Duration::from_secs(20);

    /// Beats sent so many seconds after the first, with the database's time and the answer's; whether they leave the worker
    /// free to rescue.
    fn beats(beats: &[(u64, i64, u64)]) -> bool {
        let (pulse, start, at) = (Pulse::default(), Instant::now(), Utc::now());
        for (sent, theirs, answered) in beats {
            let beat = Beat { sent: start + Duration::from_secs(*sent), at: at + TimeDelta::seconds(*theirs) };
            pulse.answered(beat, start + Duration::from_secs(*answered), LIMIT);
        }
        pulse.steady().is_some() && !pulse.failed_within(LEASE)
    }

    #[test]
    fn beats_in_time_leave_the_worker_free_to_rescue_and_a_lone_one_does_not() {
        assert!(beats(&[(0, 0, 0), (5, 6, 6), (10, 10, 11), (30, 32, 33)]));
        assert!(!beats(&[(0, 0, 0)]));
    }

    #[test]
    fn a_slow_beat_counts_as_a_failed_one() {
        assert!(!beats(&[(0, 0, 0), (5, 5, 11)]));
    }

    #[test]
    fn a_clock_that_stepped_between_two_beats_counts_as_a_failure() {
        assert!(!beats(&[(0, 0, 0), (5, 35, 5)]));
        // Set back it makes nobody look old.
        assert!(beats(&[(0, 0, 0), (5, -35, 5)]));
    }
}
