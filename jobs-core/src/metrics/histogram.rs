//! A histogram with fixed bounds, which any number of threads fill without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// The sum is kept in millionths, so that it can be added without a loop.
const UNIT: f64 = 1e6;

#[derive(Debug)]
pub(super) struct Histogram<const BOUNDS: usize> {
    bounds: &'static [f64; BOUNDS],
    /// How many values were at most this bound, and above the one before.
    counts: [AtomicU64; BOUNDS],
    above: AtomicU64,
    sum: AtomicU64,
}

/// The state of a histogram at one moment.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    /// Each bound, and how many values were at most this bound.
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl<const BOUNDS: usize> Histogram<BOUNDS> {
    pub(super) fn new(bounds: &'static [f64; BOUNDS]) -> Self {
        let zero = || AtomicU64::new(0);
        Self { bounds, counts: std::array::from_fn(|_| zero()), above: zero(), sum: zero() }
    }

    pub(super) fn add(&self, value: f64) {
        let value = value.max(0.0);
        let bin = self.counts.get(self.bounds.partition_point(|bound| *bound < value)).unwrap_or(&self.above);
        bin.fetch_add(1, Ordering::Relaxed);
        // The cast saturates.
        self.sum.fetch_add((value * UNIT).round() as u64, Ordering::Relaxed);
    }

    /// The count is the sum of all bins, so it fits to them also if values are added meanwhile.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS);
        for (bound, bin) in self.bounds.iter().zip(&self.counts) {
            count += bin.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        count += self.above.load(Ordering::Relaxed);
        Snapshot { buckets, count, sum: self.sum.load(Ordering::Relaxed) as f64 / UNIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_its_bucket_and_in_all_larger_ones() {
        let histogram = Histogram::new(&[0.0, 1.0, 10.0]);
        for value in [0.0, 0.5, 1.0, 1.5, 1000.0, -3.0] {
            histogram.add(value);
        }
        let expected = Snapshot { buckets: vec![(0.0, 2), (1.0, 4), (10.0, 5)], count: 6, sum: 1003.0 };
        assert_eq!(histogram.snapshot(), expected);
    }
}
