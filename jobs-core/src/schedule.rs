//! Schedules: which ticks are due, and which missed ticks are enqueued. The functions are pure: `now` is an argument.
//!
//! The ticks of an interval (`@every 90m`) are its multiples since 1970-01-01 00:00 UTC. So they do not depend on who
//! started when, and a restart moves none of them.
//!
//! Daylight saving of cron expressions, by the clock of the schedule's time zone:
//!
//! - A schedule with fixed times (single values, lists and ranges, at most 60 times of the day) ticks for a time that
//!   does not exist on a day at the first instant after the gap: once, also for several such times.
//! - For a time that exists twice it also ticks once, at the first of the two.
//! - A schedule with `*`, a step or all values (`0-23`) in its seconds, minutes or hours, or with more times of the
//!   day, follows the clock. It does not tick in the gap, and it ticks in both passes of a repeated hour.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Direction;
use serde::{Deserialize, Serialize};

use crate::cron_ticks::CronTicks;
use crate::{cron_problem, every};

/// With `catch_up = "all"`, one check of a schedule enqueues at most this many ticks. The next check continues.
pub(crate) const MAX_TICKS_PER_CHECK: usize = 1000;

/// A tick counts as missed if no worker has processed it within this time.
const MISSED_AFTER: Duration = Duration::from_secs(60);

fn is_missed(tick: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    (now - tick).to_std().unwrap_or_default() > MISSED_AFTER
}

/// What happens to missed ticks of a schedule. A tick is missed if no worker has processed it within a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CatchUp {
    /// Drops them. This is the default.
    #[default]
    Skip,
    /// Enqueues the latest one.
    Last,
    /// Enqueues all of them.
    All,
}

impl CatchUp {
    /// The name, as it is written in `#[job]` and stored in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Last => "last",
            Self::All => "all",
        }
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CatchUp {
    type Err = InvalidSchedule;

    fn from_str(word: &str) -> Result<Self, InvalidSchedule> {
        [Self::Skip, Self::Last, Self::All]
            .into_iter()
            .find(|c| c.as_str() == word)
            .ok_or_else(|| InvalidSchedule::CatchUp(word.to_owned()))
    }
}

/// A schedule as code declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// Five fields, or six with seconds first, or seven with a year: `0 0 2 * * *` is every night at two. Or an
    /// interval: `@every 90m`.
    pub expression: &'static str,
    /// An IANA name. Default: `UTC`.
    pub timezone: &'static str,
    /// What happens to missed ticks.
    pub catch_up: CatchUp,
}

/// Why a schedule cannot be used.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// The expression does not parse.
    #[error("cron expression {expression:?}: {problem}; {forms}", forms = cron_problem::FORMS)]
    Expression {
        /// The expression.
        expression: String,
        /// Which field, and what is wrong with it.
        problem: String,
    },
    /// It is an interval that cannot be used.
    #[error("{0}")]
    Interval(String),
    /// The expression parses, but no point in time matches it.
    #[error("cron expression {0:?} never fires")]
    NeverFires(String),
    /// The time zone is unknown.
    #[error("unknown time zone {0:?}; write an IANA name such as \"Europe/Paris\" or \"UTC\"")]
    Timezone(String),
    /// The rule for missed ticks is unknown.
    #[error("unknown catch_up {0:?}; write \"skip\", \"last\" or \"all\"")]
    CatchUp(String),
}

crate::debug_as_display!(InvalidSchedule);

/// A parsed schedule that has at least one tick.
#[derive(Clone, Debug)]
pub struct Schedule {
    ticks: Ticks,
    zone: Tz,
}

#[derive(Clone, Debug)]
enum Ticks {
    Cron(Box<CronTicks>),
    /// Multiples of this many seconds.
    Every(i64),
}

/// The result of one check of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// Ticks to enqueue, oldest first.
    pub ticks: Vec<DateTime<Utc>>,
    /// The new `last_tick` of the schedule.
    pub last_tick: DateTime<Utc>,
}

impl Schedule {
    /// The version of the IANA database of time zones that is compiled into this program, such as `2025b`. Schedules
    /// tick by its rules.
    pub const ZONE_RULES: &'static str = chrono_tz::IANA_TZDB_VERSION;

    /// Parses a cron expression and the IANA name of a time zone. The expression has five fields, six with seconds
    /// first, or seven with a year last. It may also be an interval from a second to 366 days, whose ticks are its
    /// multiples since 1970-01-01 00:00 UTC: `@every 90m`. Fails if the expression or the zone is invalid, or if the
    /// schedule never fires.
    ///
    /// ```
    /// # use diesel_jobs_core::{Schedule, InvalidSchedule};
    /// let nightly = Schedule::parse("0 0 2 * * *", "Europe/Paris")?;
    /// let noon = "2026-01-10T12:00:00Z".parse().unwrap();
    /// assert_eq!(nightly.next_after(noon).unwrap().to_rfc3339(), "2026-01-11T01:00:00+00:00");
    /// assert!(matches!(Schedule::parse("0 0 0 30 2 *", "UTC"), Err(InvalidSchedule::NeverFires(_))));
    /// # Ok::<_, InvalidSchedule>(())
    /// ```
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, InvalidSchedule> {
        let zone = timezone.parse().map_err(|_| InvalidSchedule::Timezone(timezone.to_owned()))?;
        if let Some(interval) = interval(expression) {
            let seconds = every::seconds(interval).map_err(InvalidSchedule::Interval)?;
            return Ok(Self { ticks: Ticks::Every(seconds), zone });
        }
        let ticks = CronTicks::parse(expression)
            .map_err(|problem| InvalidSchedule::Expression { expression: expression.to_owned(), problem })?;
        let schedule = Self { ticks: Ticks::Cron(Box::new(ticks)), zone };
        // The start is fixed, so that the result does not depend on the time of the check.
        match schedule.next_after(DateTime::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(InvalidSchedule::NeverFires(expression.to_owned())),
        }
    }

    /// The first tick after `instant`, or `None` if there is none.
    pub fn next_after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.ticks {
            Ticks::Cron(ticks) => ticks.nearest(instant, self.zone, Direction::Forward),
            Ticks::Every(seconds) => {
                let last = multiple_up_to(instant, *seconds);
                DateTime::from_timestamp(last.checked_add(*seconds)?, 0)
            }
        }
    }

    /// Formats an instant for display, in the time zone of the schedule: `2026-03-28 02:30:00 CET`.
    pub fn local(&self, instant: DateTime<Utc>) -> String {
        instant.with_timezone(&self.zone).format("%Y-%m-%d %H:%M:%S %Z").to_string()
    }

    /// The time zone.
    #[cfg(feature = "testing")]
    pub(crate) fn zone(&self) -> Tz {
        self.zone
    }

    /// The first tick after `last_tick` that creates no job, because it was missed.
    pub(crate) fn first_missed(
        &self,
        last_tick: DateTime<Utc>,
        now: DateTime<Utc>,
        catch_up: CatchUp,
    ) -> Option<DateTime<Utc>> {
        let first = if catch_up == CatchUp::Skip { self.next_after(last_tick) } else { None };
        first.filter(|tick| is_missed(*tick, now))
    }

    /// The ticks after `last_tick` and up to `now` that must be enqueued, at most 1,000. A later call returns the rest.
    pub fn due(&self, last_tick: DateTime<Utc>, now: DateTime<Utc>, catch_up: CatchUp) -> Due {
        let mut ticks = Vec::new();
        // With `skip` and `last`, older ticks are not needed. So the search need not begin at the start of a long
        // outage.
        let mut at = match catch_up {
            CatchUp::All => last_tick,
            CatchUp::Skip => last_tick.max(now - MISSED_AFTER - Duration::from_secs(1)),
            CatchUp::Last => {
                last_tick.max(self.newest_up_to(now).map_or(last_tick, |tick| tick - Duration::from_secs(1)))
            }
        };
        while let Some(tick) = self.next_after(at).filter(|tick| *tick <= now && ticks.len() < MAX_TICKS_PER_CHECK) {
            if catch_up != CatchUp::Skip || !is_missed(tick, now) {
                ticks.push(tick);
            }
            at = tick;
        }
        Due { last_tick: ticks.last().copied().unwrap_or(last_tick).max(last_tick), ticks }
    }

    fn newest_up_to(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match &self.ticks {
            Ticks::Cron(ticks) => ticks.nearest(now, self.zone, Direction::Backward),
            Ticks::Every(seconds) => DateTime::from_timestamp(multiple_up_to(now, *seconds), 0),
        }
    }
}

/// The interval that a stored expression contains. `None` if it is a cron expression.
fn interval(expression: &str) -> Option<&str> {
    let rest = expression.trim().strip_prefix(every::SIGN)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// The newest multiple of this many seconds that is not after the instant.
fn multiple_up_to(instant: DateTime<Utc>, seconds: i64) -> i64 {
    let second = instant.timestamp();
    second - second.rem_euclid(seconds)
}

/// The expression of an interval, as it is stored: `@every 90m` for `90m` and for `1h 30m`.
pub fn every(interval: &str) -> Result<String, InvalidSchedule> {
    every::stored(interval).map_err(InvalidSchedule::Interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn an_interval_ticks_at_its_multiples_whoever_asks_when() {
        let schedule = Schedule::parse("@every 90m", "UTC").unwrap();
        for (after, next) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T01:30:00Z"),
            ("2026-01-10T12:00:00Z", "2026-01-10T13:30:00Z"),
            ("2026-01-10T13:29:59.999Z", "2026-01-10T13:30:00Z"),
            ("2026-01-10T13:30:00Z", "2026-01-10T15:00:00Z"),
            ("2026-01-10T22:31:00Z", "2026-01-11T00:00:00Z"),
            ("1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(schedule.next_after(at(after)), Some(at(next)), "{after}");
        }
        let due = |catch_up| schedule.due(at("2026-01-10T12:00:00Z"), at("2026-01-10T18:00:30Z"), catch_up).ticks;
        let all = ["13:30", "15:00", "16:30", "18:00"].map(|time| at(&format!("2026-01-10T{time}:00Z")));
        assert_eq!(due(CatchUp::All), all);
        assert_eq!((due(CatchUp::Last), due(CatchUp::Skip)), (vec![all[3]], vec![all[3]]));
        let late = schedule.due(at("2026-01-10T12:00:00Z"), at("2026-01-10T18:10:00Z"), CatchUp::Skip);
        assert!(late.ticks.is_empty());
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        let said = |expression: &str| Schedule::parse(expression, "UTC").unwrap_err().to_string();
        assert!(said("@every 90").contains("has no unit"));
        assert!(said("@every 0s").contains("is zero"));
        assert!(said("@every").contains("is missing"));
        assert!(said("@everyone").contains("@hourly"));
    }
}
