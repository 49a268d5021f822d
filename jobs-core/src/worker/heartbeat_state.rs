//! The state of the worker's heartbeat, for services that must not act while heartbeats fail.
//!
//! It also notices when the database's clock jumped, or when the database stood still for a while without an error.
//! Then all heartbeats look old, so this worker rescues no jobs for one lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// When the heartbeat last reached the database, and when it last failed, by the monotonic clock.
#[derive(Default)]
pub(crate) struct HeartbeatState {
    origin: OnceLock<Instant>,
    last_beat_ms: AtomicU64,
    last_failure_ms: AtomicU64,
    /// The newest beat under the current id, and the beat before it.
    beats: Mutex<[Option<Beat>; 2]>,
}

/// A beat that reached the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    /// The time before it was sent, by the monotonic clock.
    pub(crate) sent: Instant,
    /// The time of the beat, by the database's clock.
    pub(crate) at: DateTime<Utc>,
}

impl HeartbeatState {
    fn now_ms(&self) -> u64 {
        let since = self.origin.get_or_init(Instant::now).elapsed();
        // One more than the real value, because zero means never.
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    pub(super) fn beat(&self) {
        self.last_beat_ms.store(self.now_ms(), Ordering::Release);
    }

    /// Records a beat that was answered at this moment. It also counts as failed if the answer took longer than
    /// `limit`. The same holds if, since the beat before, the database's clock advanced by over `limit` more than our
    /// clock; then it returns `true`. Our clock may also have stood still, with this machine.
    pub(super) fn answered(&self, beat: Beat, now: Instant, limit: Duration) -> bool {
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
        stepped
    }

    /// The newest beat, if there was a beat before it. Only then would a jump of the database's clock between the two
    /// have been noticed.
    pub(crate) fn newest_with_predecessor(&self) -> Option<Beat> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats[1].and(beats[0])
    }

    /// The worker continues under another id, so its earlier beats no longer count.
    pub(super) fn restart(&self) {
        *self.beats.lock().unwrap_or_else(PoisonError::into_inner) = [None; 2];
        self.failed();
    }

    /// Records a failed beat. From now on this worker declares no other worker dead, for one lease.
    pub(crate) fn failed(&self) {
        self.last_failure_ms.store(self.now_ms(), Ordering::Release);
    }

    fn within(&self, at: &AtomicU64, span: Duration) -> bool {
        let at = at.load(Ordering::Acquire);
        at > 0 && u128::from(self.now_ms().saturating_sub(at)) <= span.as_millis()
    }

    /// The time since the last beat that succeeded. `None` before the first one.
    pub(crate) fn age(&self) -> Option<Duration> {
        let last = self.last_beat_ms.load(Ordering::Acquire);
        (last > 0).then(|| Duration::from_millis(self.now_ms().saturating_sub(last)))
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

    /// Records beats: the seconds after the first when each was sent, the database's time, and the seconds when it was
    /// answered. Returns whether the worker may rescue jobs afterwards.
    fn beats(beats: &[(u64, i64, u64)]) -> bool {
        let (state, start, at) = (HeartbeatState::default(), Instant::now(), Utc::now());
        for (sent, theirs, answered) in beats {
            let beat = Beat { sent: start + Duration::from_secs(*sent), at: at + TimeDelta::seconds(*theirs) };
            state.answered(beat, start + Duration::from_secs(*answered), LIMIT);
        }
        state.newest_with_predecessor().is_some() && !state.failed_within(LEASE)
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
    fn a_clock_that_stepped_between_two_beats_is_noticed_and_counts_as_a_failure() {
        let (state, start, at) = (HeartbeatState::default(), Instant::now(), Utc::now());
        let stepped = [0, 5, 40, 45].map(|theirs| {
            let beat = Beat { sent: start, at: at + TimeDelta::seconds(theirs) };
            state.answered(beat, start, LIMIT)
        });
        assert_eq!(stepped, [false, false, true, false]);
        assert!(!beats(&[(0, 0, 0), (5, 35, 5)]));
        // A clock that is set back makes no heartbeat look old.
        assert!(beats(&[(0, 0, 0), (5, -35, 5)]));
    }
}
