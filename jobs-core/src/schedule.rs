//! Cron schedules: which ticks are due, and what becomes of those nobody was there for. Pure: `now` is an argument.
//!
//! Daylight saving, by the wall clock of the schedule's zone:
//!
//! - A schedule with fixed times whose time does not exist on a day (spring) runs once, at the first instant after the gap.
//! - A schedule with fixed times whose time exists twice (autumn) runs once, the first time.
//! - A schedule with `*` or a step in its seconds, minutes or hours follows the clock: nothing in the gap, both passes of a repeated hour.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds};

use crate::cron_problem;

/// The most ticks one look enqueues under `catch_up = "all"`; the next look goes on from there.
const MAX_TICKS_PER_LOOK: usize = 1000;

/// A tick nobody looked at for this long counts as missed.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);

/// What becomes of ticks that passed while no worker was up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatchUp {
    /// Nothing; the schedule goes on with the next tick. The default.
    #[default]
    Skip,
    /// The latest of them runs once.
    Last,
    /// Every one of them runs.
    All,
}

impl CatchUp {
    /// The name as stored and as written in the attribute.
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
    /// Five fields, or six with seconds first: `0 0 2 * * *` is every night at two.
    pub expression: &'static str,
    /// An IANA name. Default: `UTC`.
    pub timezone: &'static str,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
}

/// Why a schedule cannot be used.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// The expression does not parse.
    #[error(
        "cron expression {expression:?}: {problem}; the form is `sec min hour day month weekday`, such as \"0 0 2 * * *\" for every night at two"
    )]
    Expression {
        /// As given.
        expression: String,
        /// Which field, and what is wrong with it.
        problem: String,
    },
    /// It parses, but no such day exists.
    #[error("cron expression {0:?} never fires")]
    NeverFires(String),
    /// No such zone.
    #[error("unknown time zone {0:?}; write an IANA name such as \"Europe/Paris\" or \"UTC\"")]
    Timezone(String),
    /// No such way of catching up.
    #[error("unknown catch_up {0:?}; write \"skip\", \"last\" or \"all\"")]
    CatchUp(String),
}

crate::debug_as_display!(InvalidSchedule);

/// A schedule that is known to fire.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: Tz,
}

/// What a look at a schedule decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Ticks to enqueue, oldest first.
    pub ticks: Vec<DateTime<Utc>>,
    /// Where the schedule stands afterwards.
    pub last_tick: DateTime<Utc>,
}

impl Schedule {
    /// Reads an expression and a zone.
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
        let cron = CronParser::builder().seconds(Seconds::Optional).build().parse(expression).map_err(|e| {
            let problem = cron_problem::problem(expression).unwrap_or_else(|| e.to_string());
            InvalidSchedule::Expression { expression: expression.to_owned(), problem }
        })?;
        let schedule = Self { cron, zone };
        // A fixed start: whether an expression ever fires must not depend on when it is asked.
        match schedule.next_after(DateTime::UNIX_EPOCH) {
            Some(_) => Ok(schedule),
            None => Err(InvalidSchedule::NeverFires(expression.to_owned())),
        }
    }

    /// The first tick after `instant`, or `None` when no further one exists.
    pub fn next_after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self.cron.find_next_occurrence(&instant.with_timezone(&self.zone), false).ok()?;
        Some(next.with_timezone(&Utc))
    }

    /// The ticks after `last_tick` up to `now` that are to be enqueued.
    pub fn due(&self, last_tick: DateTime<Utc>, now: DateTime<Utc>, catch_up: CatchUp) -> Due {
        let fresh = |tick: &DateTime<Utc>| (now - *tick).to_std().unwrap_or_default() <= MISSED_AFTER;
        let mut ticks = Vec::new();
        // Under `skip` and `last` nothing older than the newest tick matters, so a long outage costs no walk through it.
        let mut at = match catch_up {
            CatchUp::All => last_tick,
            CatchUp::Skip => last_tick.max(now - MISSED_AFTER - Duration::from_secs(1)),
            CatchUp::Last => {
                last_tick.max(self.newest_up_to(now).map_or(last_tick, |tick| tick - Duration::from_secs(1)))
            }
        };
        while let Some(tick) = self.next_after(at).filter(|tick| *tick <= now && ticks.len() < MAX_TICKS_PER_LOOK) {
            if catch_up != CatchUp::Skip || fresh(&tick) {
                ticks.push(tick);
            }
            at = tick;
        }
        Due { last_tick: ticks.last().copied().unwrap_or(last_tick).max(last_tick), ticks }
    }

    fn newest_up_to(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let newest = self.cron.find_previous_occurrence(&now.with_timezone(&self.zone), true).ok()?;
        Some(newest.with_timezone(&Utc))
    }
}
