//! Records how many jobs were completed at which time.

use std::time::{Duration, Instant};

/// Growing totals, with the times at which they were received.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    begun: Instant,
    points: Vec<(Duration, u64)>,
}

impl Timeline {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, points: Vec::new() }
    }

    pub(crate) fn push(&mut self, at: Instant, total: u64) {
        self.points.push((at.saturating_duration_since(self.begun), total));
    }

    /// Returns the time from the start to the newest completion.
    pub(crate) fn last(&self) -> Duration {
        self.points.last().map(|(at, _)| *at).unwrap_or_default()
    }

    /// Returns the jobs per second in each full window of this length, from the start until `until`.
    pub(crate) fn windows(&self, length: Duration, until: Duration) -> Vec<f64> {
        let total_at = |at: Duration| self.points.iter().rfind(|(when, _)| *when <= at).map_or(0, |(_, total)| *total);
        let number = (until.as_secs_f64() / length.as_secs_f64() + 0.01).floor() as u32;
        let rate = |window: u32| {
            let completed = total_at(length * (window + 1)) - total_at(length * window);
            completed as f64 / length.as_secs_f64()
        };
        (0..number).map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(points: &[(u64, u64)]) -> Timeline {
        let begun = Instant::now();
        let mut timeline = Timeline::new(begun);
        for (millis, total) in points {
            timeline.push(begun + Duration::from_millis(*millis), *total);
        }
        timeline
    }

    #[test]
    fn a_window_counts_what_was_completed_in_it() {
        let line = timeline(&[(500, 5), (1500, 30), (1900, 40), (3500, 41)]);
        assert_eq!(line.windows(Duration::from_secs(1), Duration::from_secs(3)), [5.0, 35.0, 0.0]);
        assert_eq!(line.last(), Duration::from_millis(3500));
    }
}
