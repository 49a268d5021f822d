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

/// The ends of axes of times, in seconds. Half of each is a short number, too.
const TIMES: [f64; 26] = [
    0.002, 0.004, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 1.0, 2.0, 4.0, 10.0, 20.0, 60.0, 120.0, 240.0, 600.0, 1200.0,
    3600.0, 7200.0, 14_400.0, 43_200.0, 86_400.0, 172_800.0, 345_600.0, 864_000.0,
];

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
            Self::Seconds => {
                TIMES.into_iter().find(|time| *time >= highest).unwrap_or((highest / 864_000.0).ceil() * 864_000.0)
            }
            Self::Percent if highest <= 10.0 => 10.0,
            Self::Percent => 100.0,
            Self::Jobs => {
                let highest = highest.max(1.0);
                let power = 10_f64.powf(highest.log10().floor());
                [1.0, 2.0, 4.0, 10.0]
                    .into_iter()
                    .map(|step| step * power)
                    .find(|top| *top >= highest)
                    .unwrap_or(highest)
            }
        }
    }

    /// A label of the axis.
    pub(super) fn label(self, value: f64) -> String {
        match self {
            Self::Seconds if value == 0.0 => "0".to_owned(),
            Self::Percent => format!("{value:.0} %"),
            _ => self.value(value),
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
    fn axes_end_at_round_numbers() {
        for (unit, highest, top, label) in [
            (Unit::Jobs, 0.0, 1.0, "1"),
            (Unit::Jobs, 37.0, 40.0, "40"),
            (Unit::Jobs, 101.0, 200.0, "200"),
            (Unit::Jobs, 990_000.0, 1_000_000.0, "1000k"),
            (Unit::Seconds, 0.0, 0.002, "2 ms"),
            (Unit::Seconds, 3.1, 4.0, "4.0 s"),
            (Unit::Seconds, 2_000_000.0, 2_592_000.0, "30 d"),
            (Unit::Percent, 3.0, 10.0, "10 %"),
            (Unit::Percent, 12.0, 100.0, "100 %"),
        ] {
            assert_eq!((unit.top(highest), unit.label(unit.top(highest))), (top, label.to_owned()), "{highest}");
        }
    }
}
