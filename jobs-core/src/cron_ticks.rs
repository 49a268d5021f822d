//! The ticks of a cron expression, by the clock of a time zone. The macros use this file too
//! (`jobs-macros/src/cron_ticks.rs` links here), so that the compiler and the worker agree whether a schedule ticks.
//!
//! An expression has *fixed* times of the day if its fields for them have neither `*`, nor a step, nor all their
//! values, and if there are at most [`MOST_TIMES`]. The ticks of these are found by a clock without gaps, and each is
//! then looked up in the zone: a time that does not exist is the end of its gap, and one that exists twice is the first
//! of the two. All other expressions follow the clock, as the parser's library does it.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _, Timelike as _, Utc};
use chrono_tz::Tz;
use croner::{Cron, Direction};

use crate::cron_problem;

/// An expression with more times of the day follows the clock, as one with `*` does.
const MOST_TIMES: usize = 60;

/// All gaps are shorter than this, apart from the days that a place leaves out when it crosses the date line. Those
/// have no ticks.
const LONGEST_GAP: TimeDelta = TimeDelta::hours(4);

/// No change of the clocks is greater than this, and there is at most one within it.
const LONGEST_CHANGE: TimeDelta = TimeDelta::hours(26);

/// Every gap begins and ends at a multiple of this, by the clock.
const GAP_STEP: TimeDelta = TimeDelta::minutes(1);

/// A parsed cron expression.
#[derive(Clone, Debug)]
pub(crate) struct CronTicks {
    cron: Cron,
    has_fixed_times: bool,
}

impl CronTicks {
    pub(crate) fn parse(expression: &str) -> Result<Self, String> {
        let cron = cron_problem::parse(expression)?;
        let has_fixed_times = has_fixed_times(&cron);
        Ok(Self { cron, has_fixed_times })
    }

    /// Forwards, the first tick after the instant. Backwards, the newest one that is not after it.
    pub(crate) fn nearest(&self, instant: DateTime<Utc>, zone: Tz, direction: Direction) -> Option<DateTime<Utc>> {
        let from = instant.with_timezone(&zone);
        let is_past = direction == Direction::Backward;
        if !self.has_fixed_times {
            let found = match direction {
                Direction::Forward => self.cron.find_next_occurrence(&from, false),
                Direction::Backward => self.cron.find_previous_occurrence(&from, true),
            };
            return found.ok().map(|tick| tick.to_utc());
        }
        // The times that exist a second time after this instant are ticks of their first time.
        let repeated = match direction {
            Direction::Forward => TimeDelta::zero(),
            Direction::Backward => still_repeated(from),
        };
        // By a clock without gaps.
        let start = from.naive_local().checked_add_signed(repeated)?.and_utc();
        let times = self.cron.iter_from(start, direction).map(|time| time.naive_utc());
        let mut ticks = times.filter_map(|time| tick_at(time, zone));
        ticks.find(|tick| (*tick <= instant) == is_past)
    }
}

fn has_fixed_times(cron: &Cron) -> bool {
    let fields = [&cron.pattern.seconds, &cron.pattern.minutes, &cron.pattern.hours];
    let values = fields.map(|field| field.values().len());
    let follows_the_clock = fields
        .iter()
        .zip(values)
        .any(|(field, values)| field.from_wildcard || field.step > 1 || values > usize::from(field.max - field.min));
    !follows_the_clock && values.iter().product::<usize>() <= MOST_TIMES
}

/// The instant of this time in the zone. `None` if the zone has left it out with its whole day.
fn tick_at(time: NaiveDateTime, zone: Tz) -> Option<DateTime<Utc>> {
    if let Some(instant) = zone.from_local_datetime(&time).earliest() {
        return Some(instant.to_utc());
    }
    let minute = time.with_second(0)?;
    let edge = |step| {
        let times = std::iter::successors(Some(minute), move |time: &NaiveDateTime| time.checked_add_signed(step));
        let mut times = times.take_while(move |time| (*time - minute).abs() <= LONGEST_GAP);
        times.find(|time| !matches!(zone.from_local_datetime(time), MappedLocalTime::None))
    };
    let (before, after) = (edge(-GAP_STEP)?, edge(GAP_STEP)?);
    let is_gap = after - before <= LONGEST_GAP + GAP_STEP;
    zone.from_local_datetime(&after).earliest().filter(|_| is_gap).map(|instant| instant.to_utc())
}

/// How far the clock has just been set back: so much time from now on exists a second time, or a part of it does.
fn still_repeated(from: DateTime<Tz>) -> TimeDelta {
    let seconds = |instant: &DateTime<Tz>| instant.offset().fix().local_minus_utc();
    let before = from.checked_sub_signed(LONGEST_CHANGE);
    let back = before.map_or(0, |before| seconds(&before) - seconds(&from));
    TimeDelta::seconds(back.max(0).into())
}
