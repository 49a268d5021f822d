//! Whether too many claim from one queue at once. Claimers walk over one another's locked rows, and many together get less
//! than a few would: what one of them sees of that is that its claims take long. It then keeps away for a while, for
//! twice as long each time, until they are short again. Nobody counts the others; senders on a crowded network do the same.

use std::time::Duration;

/// Claims of fewer jobs than this tell nothing of a crowd: nobody walks far for them.
const MANY: usize = 64;
/// A claim of many jobs that takes longer than this, and than twice the fastest, met a crowd.
const LONG: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a worker knows of the crowd.
#[derive(Debug)]
pub(super) struct Crowd {
    /// The fastest claim of late: the way to the database and back. At most `LONG`, should all have met a crowd.
    fastest: Duration,
    /// Whether the claim before met a crowd, too: one alone, if it was not very long, may have met a checkpoint.
    again: bool,
    pause: Duration,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self { fastest: LONG, again: false, pause: Duration::ZERO }
    }

    /// After a claim that took this `time` and brought so many `jobs`: how long to keep away, on average.
    pub(super) fn after_claim(&mut self, time: Duration, jobs: usize) -> Duration {
        self.fastest = (self.fastest + self.fastest / 16).min(time).min(LONG);
        if jobs < MANY {
            return Duration::ZERO;
        }
        let crowded = time > LONG + self.fastest * 2;
        if !crowded {
            self.pause = self.pause * 3 / 4;
        } else if self.again || time > LONG * 4 {
            self.pause = (self.pause * 2).max(time).min(LONGEST_PAUSE);
        }
        self.again = crowded;
        if self.pause < Duration::from_millis(1) { Duration::ZERO } else { self.pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn claims_that_take_long_are_followed_by_pauses_and_short_ones_end_them() {
        let mut crowd = Crowd::new();
        assert_eq!(crowd.after_claim(SHORT, 500), Duration::ZERO);
        let pauses: Vec<_> = (0..4).map(|_| crowd.after_claim(LONG * 2, 500)).collect();
        assert_eq!(pauses, [0, 2, 4, 8].map(|times| LONG * times), "one alone tells nothing");
        let ended = (0..30).map(|_| crowd.after_claim(SHORT, 500)).last();
        assert_eq!(ended, Some(Duration::ZERO));
    }

    #[test]
    fn a_far_database_is_no_crowd() {
        let mut crowd = Crowd::new();
        assert!((0..100).all(|_| crowd.after_claim(Duration::from_millis(140), 500).is_zero()));
    }

    #[test]
    fn small_claims_never_pause() {
        let mut crowd = Crowd::new();
        assert!((0..100).all(|_| crowd.after_claim(Duration::from_secs(1), MANY - 1).is_zero()));
    }

    #[test]
    fn pauses_have_an_end() {
        let mut crowd = Crowd::new();
        assert_eq!((0..100).map(|_| crowd.after_claim(Duration::from_secs(5), 500)).max(), Some(LONGEST_PAUSE));
    }
}
