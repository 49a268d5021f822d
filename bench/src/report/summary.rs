//! Medians and percentiles.

use serde::Serialize;

/// Minimum, median and maximum of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Returns `None` if there are no runs.
    pub(crate) fn of(runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self { min: sorted[0], median, max: sorted[sorted.len() - 1] })
    }
}

/// Returns the median, or zero if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(0.0, |summary| summary.median)
}

/// Returns the smallest value that at least this share (0 to 100) of the values does not exceed. Zero if there are no
/// values.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Summary::of(&[4.0, 1.0, 3.0, 2.0]), Some(Summary { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), 100.0);
        assert_eq!(percentile(&values, 99.0), 198.0);
        assert_eq!(percentile(&values, 100.0), 200.0);
        assert_eq!(percentile(&[7.0], 1.0), 7.0);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }
}
