//! The units of charts: where an axis ends, and how its values are written.

use crate::format;

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Jobs per minute.
    Jobs,
    /// Seconds.
    Seconds,
    /// Per cent.
    Percent,
}

/// The steps of an axis, which are repeated for each power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];
/// The ends of axes of times from a minute on, in seconds.
const TIMES: [f64; 18] = [
    60.0,
    120.0,
    300.0,
    600.0,
    1200.0,
    1800.0,
    3600.0,
    7200.0,
    18_000.0,
    36_000.0,
    43_200.0,
    86_400.0,
    172_800.0,
    432_000.0,
    864_000.0,
    1_728_000.0,
    2_160_000.0,
    4_320_000.0,
];

/// The lowest of the steps, multiplied by a power of ten, that is not below the value.
fn round(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let step = STEPS.into_iter().chain([10.0]).find(|step| step * power >= value).unwrap_or(10.0);
    step * power
}

/// A number of an axis, exactly: half of 2.5 is 1.25.
fn exact(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Unit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs per minute",
            Self::Seconds => "time",
            Self::Percent => "%",
        }
    }

    /// A round number, not below the highest value.
    pub(super) fn top(self, highest: f64) -> f64 {
        match self {
            Self::Seconds if highest > 30.0 => {
                TIMES.into_iter().find(|time| *time >= highest).unwrap_or(round(highest / 86_400.0) * 86_400.0)
            }
            Self::Seconds if highest > 25.0 => 30.0,
            Self::Seconds => round(highest.max(0.002)),
            Self::Percent => round(highest.max(1.0)).min(100.0),
            Self::Jobs => round(highest.max(1.0)),
        }
    }

    /// A label of the axis.
    pub(super) fn label(self, value: f64) -> String {
        match self {
            Self::Seconds if value == 0.0 => "0".to_owned(),
            Self::Seconds if value < 1.0 => format!("{} ms", exact(value * 1000.0)),
            Self::Seconds if value < 60.0 => format!("{} s", exact(value)),
            Self::Seconds if value < 3600.0 => format!("{} min", exact(value / 60.0)),
            Self::Seconds if value < 86_400.0 => format!("{} h", exact(value / 3600.0)),
            Self::Seconds => format!("{} d", exact(value / 86_400.0)),
            Self::Percent => format!("{} %", exact(value)),
            Self::Jobs if value >= 100_000.0 => format!("{}k", exact(value / 1000.0)),
            Self::Jobs => exact(value),
        }
    }

    /// A value.
    pub(crate) fn value(self, value: f64) -> String {
        match self {
            Self::Seconds => format::seconds(value),
            Self::Percent => format!("{value:.1} %"),
            Self::Jobs if value >= 100_000.0 => format!("{:.0}k", value / 1000.0),
            Self::Jobs if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
            Self::Jobs => format!("{value:.1}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_and_half_of_them_is_exact() {
        for (unit, highest, top, label, half) in [
            (Unit::Jobs, 0.0, 1.0, "1", "0.5"),
            (Unit::Jobs, 2.1, 2.5, "2.5", "1.25"),
            (Unit::Jobs, 22.0, 25.0, "25", "12.5"),
            (Unit::Jobs, 101.0, 200.0, "200", "100"),
            (Unit::Jobs, 4300.0, 5000.0, "5000", "2500"),
            (Unit::Jobs, 5001.0, 10_000.0, "10000", "5000"),
            (Unit::Jobs, 990_000.0, 1_000_000.0, "1000k", "500k"),
            (Unit::Seconds, 0.0, 0.002, "2 ms", "1 ms"),
            (Unit::Seconds, 0.0023, 0.0025, "2.5 ms", "1.25 ms"),
            (Unit::Seconds, 3.1, 5.0, "5 s", "2.5 s"),
            (Unit::Seconds, 26.0, 30.0, "30 s", "15 s"),
            (Unit::Seconds, 31.0, 60.0, "1 min", "30 s"),
            (Unit::Seconds, 200.0, 300.0, "5 min", "2.5 min"),
            (Unit::Seconds, 40_000.0, 43_200.0, "12 h", "6 h"),
            (Unit::Seconds, 1_800_000.0, 2_160_000.0, "25 d", "12.5 d"),
            (Unit::Seconds, 5_000_000.0, 8_640_000.0, "100 d", "50 d"),
            (Unit::Percent, 0.3, 1.0, "1 %", "0.5 %"),
            (Unit::Percent, 3.0, 5.0, "5 %", "2.5 %"),
            (Unit::Percent, 22.0, 25.0, "25 %", "12.5 %"),
            (Unit::Percent, 51.0, 100.0, "100 %", "50 %"),
            (Unit::Percent, 100.0, 100.0, "100 %", "50 %"),
        ] {
            let found = unit.top(highest);
            // Powers of ten are not exact below 1.
            assert!((found - top).abs() < top * 1e-9, "{highest}: {found}");
            assert_eq!((unit.label(found), unit.label(found / 2.0)), (label.to_owned(), half.to_owned()), "{highest}");
            assert!(found * (1.0 + 1e-9) >= highest, "{highest}: {found}");
        }
    }
}
