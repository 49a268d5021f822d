//! Medians and percentiles.

/// Returns the median. For an even number of figures it is the mean of the middle two. NaN if there are none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Returns the smallest figure that at least this percentage of all figures does not exceed. NaN if there are none.
pub(crate) fn percentile(figures: &[f64], percent: f64) -> f64 {
    let sorted = sorted(figures);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank is small and not negative")]
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the smallest and the largest figure.
pub(crate) fn range(figures: &[f64]) -> (f64, f64) {
    figures.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), figure| (min.min(*figure), max.max(*figure)))
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_percentile_is_one_of_the_figures() {
        let figures: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&figures, 50.0), 50.0);
        assert_eq!(percentile(&figures, 99.0), 99.0);
        assert_eq!(percentile(&figures, 100.0), 100.0);
        assert_eq!(percentile(&[7.0], 50.0), 7.0);
    }

    #[test]
    fn a_range_holds_all() {
        assert_eq!(range(&[2.0, 9.0, 4.0]), (2.0, 9.0));
    }
}
