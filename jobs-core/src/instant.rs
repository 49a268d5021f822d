//! The types of points in time for which a job can be scheduled.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeZone, Utc};

/// A point in time: `chrono::DateTime` in any time zone, `SystemTime`, `time::OffsetDateTime` (feature `time`),
/// `jiff::Timestamp` and `jiff::ZonedDateTime` (feature `jiff`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a point in time",
    note = "pass a `chrono::DateTime`, a `SystemTime`, a `time::OffsetDateTime` (feature `time`), or a `jiff::Timestamp` or `jiff::ZonedDateTime` \
            (feature `jiff`)"
)]
pub trait IntoInstant {
    /// Converts to the same point in time. If `chrono` cannot represent it, the result is the nearest point in time
    /// that it can.
    fn into_instant(self) -> DateTime<Utc>;
}

impl<Z: TimeZone> IntoInstant for DateTime<Z> {
    fn into_instant(self) -> DateTime<Utc> {
        self.to_utc()
    }
}

impl IntoInstant for SystemTime {
    fn into_instant(self) -> DateTime<Utc> {
        match self.duration_since(UNIX_EPOCH) {
            Ok(since) => at(i128::try_from(since.as_micros()).unwrap_or(i128::MAX)),
            Err(before) => at(-i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX)),
        }
    }
}

#[cfg(feature = "time")]
impl IntoInstant for time::OffsetDateTime {
    fn into_instant(self) -> DateTime<Utc> {
        at(self.unix_timestamp_nanos() / 1000)
    }
}

#[cfg(feature = "jiff")]
impl IntoInstant for jiff::Timestamp {
    fn into_instant(self) -> DateTime<Utc> {
        at(self.as_microsecond().into())
    }
}

#[cfg(feature = "jiff")]
impl IntoInstant for jiff::ZonedDateTime {
    fn into_instant(self) -> DateTime<Utc> {
        self.timestamp().into_instant()
    }
}

/// The point in time that is this many microseconds after 1970.
fn at(microseconds: i128) -> DateTime<Utc> {
    let nearest = if microseconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    i64::try_from(microseconds).ok().and_then(DateTime::from_timestamp_micros).unwrap_or(nearest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_type_is_the_same_point_in_time() {
        let expected = DateTime::from_timestamp_micros(1_767_323_045_123_456).unwrap();
        let berlin = expected.with_timezone(&chrono_tz::Europe::Berlin);
        assert_eq!(berlin.into_instant(), expected);
        let system = UNIX_EPOCH + Duration::from_micros(1_767_323_045_123_456);
        assert_eq!(system.into_instant(), expected);
        #[cfg(feature = "time")]
        assert_eq!(time::OffsetDateTime::from(system).into_instant(), expected);
        #[cfg(feature = "jiff")]
        {
            let timestamp = jiff::Timestamp::try_from(system).unwrap();
            assert_eq!(timestamp.into_instant(), expected);
            assert_eq!(jiff::ZonedDateTime::new(timestamp, jiff::tz::TimeZone::UTC).into_instant(), expected);
        }
    }

    #[test]
    fn the_ends_are_the_nearest_and_no_panic() {
        assert!((UNIX_EPOCH - Duration::from_secs(1)).into_instant() < DateTime::UNIX_EPOCH);
        let far = UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX.unsigned_abs() / 2)).unwrap();
        assert_eq!(far.into_instant(), DateTime::<Utc>::MAX_UTC);
        let early = UNIX_EPOCH.checked_sub(Duration::from_secs(i64::MAX.unsigned_abs() / 2)).unwrap();
        assert_eq!(early.into_instant(), DateTime::<Utc>::MIN_UTC);
        #[cfg(feature = "jiff")]
        assert!(jiff::Timestamp::MIN.into_instant() < jiff::Timestamp::MAX.into_instant());
    }
}
