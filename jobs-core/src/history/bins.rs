//! Bins: how often a duration was in each of a fixed series of ranges. Bins of several minutes and workers are joined
//! by adding them bin by bin. Quantiles are estimated from the sums. Quantiles themselves must never be averaged.
//!
//! Bin 0 is below a millisecond. The upper border of each further bin is √2 times the border before it. So an estimated
//! quantile is wrong by at most this factor.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of bins. The last one has no upper border. It begins at 18 days.
pub const BINS: usize = 62;

/// How often a duration was in each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(Vec<u64>);

/// The upper border of a bin in seconds, which is the lower border of the next one.
fn border(bin: usize) -> f64 {
    // The exponent is at most 30.5.
    0.001 * 2_f64.powf(bin as f64 / 2.0)
}

/// The bin of a duration. It is computed twice for each job, so it uses no logarithm.
fn bin_of(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let Some(doublings) = (micros / 1000).checked_ilog2() else { return 0 };
    // Whether it is at least the square root of two times the lower border of these two bins.
    let is_upper = u128::from(micros) * 1_000_000 >= 1_414_213_562_u128 << doublings;
    (1 + 2 * doublings as usize + usize::from(is_upper)).min(BINS - 1)
}

impl Bins {
    /// From the counts of the bins, as they are stored. Counts beyond the last bin are added to it.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut bins = Self::default();
        for (bin, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            bins.add(bin.min(BINS - 1), count);
        }
        bins
    }

    fn add(&mut self, bin: usize, count: u64) {
        if self.0.len() <= bin {
            self.0.resize(bin + 1, 0);
        }
        self.0[bin] = self.0[bin].saturating_add(count);
    }

    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        self.add(bin_of(duration), 1);
    }

    /// Adds the counts of other bins.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in other.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add(bin, *count);
        }
    }

    /// The counts, without the empty bins at the end.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// How many durations were counted.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// The estimated duration in seconds that this share of the durations did not exceed. `None` if none was counted.
    ///
    /// Within a bin the durations are assumed to be spread evenly, by the logarithm of their length. The estimate is at
    /// most a factor of the square root of two away from the true value, if that is at least a millisecond.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        let rank = share.clamp(0.0, 1.0) * total as f64;
        let (mut before, mut last) = (0.0, None);
        for (bin, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            let within = ((rank - before) / count).clamp(0.0, 1.0);
            last = Some(match bin {
                0 => border(0) * within,
                _ => border(bin - 1) * 2_f64.powf(within / 2.0),
            });
            if before + count >= rank {
                break;
            }
            before += count;
        }
        last
    }
}

impl Serialize for Bins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The columns hold integers of 32 bits.
        serializer.collect_seq(self.0.iter().map(|count| (*count).min(i32::MAX as u64)))
    }
}

impl<'de> Deserialize<'de> for Bins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_counts(Vec::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_between_the_borders_of_its_bin() {
        let durations = (0..4000).map(|step| Duration::from_secs_f64(1e-6 * 1.007_f64.powi(step)));
        let borders =
            (0..BINS).flat_map(|bin| [-1e-5, 0.0, 1e-5].map(|off| Duration::from_secs_f64(border(bin) * (1.0 + off))));
        for duration in durations.chain(borders).chain([Duration::ZERO, Duration::MAX]) {
            let (bin, seconds) = (bin_of(duration), duration.as_secs_f64());
            // Microseconds are counted, and the square root has ten digits.
            let (at_most, at_least) = (seconds * (1.0 + 1e-8), seconds * (1.0 - 1e-8) - 1e-6);
            assert!(bin == 0 || at_most >= border(bin - 1), "{duration:?} is below bin {bin}");
            assert!(bin == BINS - 1 || at_least < border(bin), "{duration:?} is above bin {bin}");
        }
    }

    #[test]
    fn the_first_border_is_a_millisecond_and_each_second_border_is_twice_as_long() {
        assert_eq!([bin_of(Duration::from_micros(999)), bin_of(Duration::from_millis(1))], [0, 1]);
        assert_eq!([bin_of(Duration::from_millis(2)), bin_of(Duration::from_millis(4))], [3, 5]);
    }

    #[test]
    fn quantiles_are_at_most_one_bin_off() {
        let mut bins = Bins::default();
        let durations: Vec<f64> = (1..=1000).map(|i| 0.001 * f64::from(i) * 1.7).collect();
        durations.iter().for_each(|seconds| bins.record(Duration::from_secs_f64(*seconds)));
        for (share, rank) in [(0.5, 500), (0.95, 950), (0.99, 990), (1.0, 1000)] {
            let (estimated, exact) = (bins.quantile(share).unwrap_or_default(), durations[rank - 1]);
            assert!((exact / 1.42..exact * 1.42).contains(&estimated), "{share}: {estimated} for {exact}");
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_fast_jobs_have_one_below_a_millisecond() {
        assert_eq!(Bins::default().quantile(0.5), None);
        let mut fast = Bins::default();
        fast.record(Duration::from_micros(30));
        assert!(fast.quantile(0.5).is_some_and(|seconds| (0.0..0.001).contains(&seconds)));
    }

    #[test]
    fn joined_bins_equal_the_bins_of_all_durations() {
        let (mut all, mut left, mut right) = (Bins::default(), Bins::default(), Bins::default());
        for step in 0..500_u32 {
            let duration = Duration::from_micros(u64::from(step) * u64::from(step) * 37);
            all.record(duration);
            if step.is_multiple_of(3) { &mut left } else { &mut right }.record(duration);
        }
        left.merge(&right);
        assert_eq!((left.total(), &left), (500, &all));
    }

    #[test]
    fn stored_counts_are_read_back() -> Result<(), serde_json::Error> {
        let mut bins = Bins::default();
        for ms in [1, 1, 40] {
            bins.record(Duration::from_millis(ms));
        }
        let text = serde_json::to_string(&bins)?;
        assert_eq!(text, "[0,2,0,0,0,0,0,0,0,0,0,1]");
        assert_eq!(serde_json::from_str::<Bins>(&text)?, bins);
        assert_eq!(Bins::from_counts(vec![1; 100]).counts().len(), BINS, "a later version may have more bins");
        Ok(())
    }
}
