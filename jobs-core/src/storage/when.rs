//! A moment in a filter: a time, or an age that is counted from the database's clock when the filter is used.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// The units of an age, the largest first, and how many milliseconds each has.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The largest age: a hundred years.
const MAX_AGE_MILLIS: u64 = 36_525 * 86_400_000;

/// A moment: `2026-01-31T08:00:00Z`, or an age such as `2h` or `1d12h`, which is that long before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum When {
    /// This time.
    At(DateTime<Utc>),
    /// This long before the database's clock. Whole milliseconds, at most a hundred years.
    Ago(Duration),
}

impl When {
    /// The time, or else the age.
    pub fn time(self) -> Result<DateTime<Utc>, Duration> {
        match self {
            Self::At(time) => Ok(time),
            Self::Ago(age) => Err(age),
        }
    }

    /// The time that this is at `now`.
    pub fn at(self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::At(time) => time,
            // An age of at most a hundred years is far from the ends of the calendar.
            Self::Ago(age) => {
                chrono::TimeDelta::from_std(age).ok().and_then(|age| now.checked_sub_signed(age)).unwrap_or(now)
            }
        }
    }

    /// Whether databases can store the time.
    pub(super) fn is_in_range(self) -> bool {
        match self {
            Self::At(time) => (1..=9999).contains(&chrono::Datelike::year(&time)),
            Self::Ago(age) => age.as_millis() <= u128::from(MAX_AGE_MILLIS),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
            Self::Ago(age) => {
                let mut millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                if millis == 0 {
                    return f.write_str("0s");
                }
                for (unit, size) in UNITS {
                    if millis >= size {
                        write!(f, "{}{unit}", millis / size)?;
                        millis %= size;
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{text:?} is not a time; write a time such as 2026-01-31T08:00:00Z, or an age such as 30m, 2h or 1d12h"
            )
        };
        let moment = if text.contains('-') {
            Self::At(DateTime::parse_from_rfc3339(text).map_err(|_| refused())?.to_utc())
        } else {
            Self::Ago(age(text).ok_or_else(refused)?)
        };
        if !moment.is_in_range() {
            return Err(format!(
                "{text:?} is too far away; write a time of the years 1 to 9999, or an age of at most a hundred years"
            ));
        }
        Ok(moment)
    }
}

fn age(text: &str) -> Option<Duration> {
    let (mut rest, mut millis) = (text, 0_u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        millis = number.parse::<u64>().ok()?.checked_mul(*size).and_then(|part| millis.checked_add(part))?;
        rest = tail;
    }
    Some(Duration::from_millis(millis))
}

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<When> for String {
    fn from(when: When) -> Self {
        when.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ages_are_read_and_written() {
        for text in ["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.250Z", "2h", "1d12h", "1d2h3m4s5ms", "0s"] {
            assert_eq!(text.parse::<When>().unwrap().to_string(), text);
        }
        assert_eq!("90m".parse::<When>().unwrap().to_string(), "1h30m");
        let now = "2026-01-31T08:00:00Z".parse().unwrap();
        assert_eq!("2h".parse::<When>().unwrap().at(now).to_rfc3339(), "2026-01-31T06:00:00+00:00");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2",
            "h",
            "2 h",
            "2h ",
            "-2h",
            "soon",
            "2026-01-31",
            "99999999999999999999d",
            "infinity",
            "2026-13-01T00:00:00Z",
        ] {
            assert!(text.parse::<When>().unwrap_err().contains("write a time"), "{text}");
        }
        assert!("40000d".parse::<When>().unwrap_err().contains("hundred years"));
    }
}
