//! The ticks of a cron expression, by the clock of a time zone. The macros use this file too
//! (`jobs-macros/src/cron_ticks.rs` links here), so that the compiler and the worker agree whether a schedule ticks.
//!
//! The parser's library treats only an expression with one time of the day as fixed. So an expression with lists or
//! ranges of times is taken apart into one expression for each time, and its ticks are those of all of them. It is not
//! taken apart if a field has `*`, a step, or all its values, and if it has more than [`MOST_TIMES`] times.

use chrono::{DateTime, TimeDelta, TimeZone as _, Timelike as _, Utc};
use chrono_tz::Tz;
use croner::errors::CronError;
use croner::{Cron, CronComponent, Direction};

use crate::cron_problem;

/// An expression with more times of the day follows the clock, as one with `*` does. Without optimisation, a search
/// with this many takes 0.4 ms, and one with a single time takes 0.01 ms. On the day before a gap that contains all of
/// them it takes 30 ms. The scheduler makes three searches for each schedule, about every five seconds.
const MOST_TIMES: usize = 60;

/// The longest gap of any time zone: a whole day, which a place leaves out when it crosses the date line.
const LONGEST_GAP: TimeDelta = TimeDelta::hours(26);

/// Every gap ends at a multiple of this, by the clock.
const GAP_STEP: TimeDelta = TimeDelta::minutes(1);

/// A parsed cron expression.
#[derive(Clone, Debug)]
pub(crate) struct CronTicks {
    cron: Cron,
    /// The same expression for each of its times of the day. Empty if it has one, or follows the clock.
    times: Vec<Cron>,
}

impl CronTicks {
    pub(crate) fn parse(expression: &str) -> Result<Self, String> {
        let cron = cron_problem::parse(expression)?;
        let times = single_times(&cron).map_err(|problem| problem.to_string())?;
        Ok(Self { cron, times })
    }

    /// Forwards, the first tick after the instant. Backwards, the newest one that is not after it.
    pub(crate) fn nearest(&self, instant: DateTime<Utc>, zone: Tz, direction: Direction) -> Option<DateTime<Utc>> {
        let from = instant.with_timezone(&zone);
        if self.times.is_empty() {
            return nearest(&self.cron, from, direction);
        }
        if direction == Direction::Forward {
            // By a clock without gaps. Where nothing is found, each time would be searched for until the year 5000.
            self.cron.find_next_occurrence(&from.naive_local().and_utc(), false).ok()?;
        }
        let ticks = self.times.iter().filter_map(|time| nearest(time, from, direction));
        match direction {
            Direction::Forward => ticks.min(),
            Direction::Backward => ticks.max(),
        }
    }
}

/// An expression for each of several times of the day. None if the expression follows the clock.
fn single_times(cron: &Cron) -> Result<Vec<Cron>, CronError> {
    let fields = [&cron.pattern.seconds, &cron.pattern.minutes, &cron.pattern.hours];
    let values = fields.map(CronComponent::values);
    let follows_the_clock = fields.iter().zip(&values).any(|(field, values)| {
        field.from_wildcard || field.step > 1 || values.len() > usize::from(field.max - field.min)
    });
    let [seconds, minutes, hours] = values;
    let number = seconds.len() * minutes.len() * hours.len();
    if follows_the_clock || number == 1 || number > MOST_TIMES {
        return Ok(Vec::new());
    }
    let minutes = |hour| minutes.iter().map(move |minute| (hour, *minute));
    let times = hours.into_iter().flat_map(minutes).flat_map(|time| seconds.iter().map(move |second| (time, *second)));
    let single = |((hour, minute), second)| {
        let mut single = cron.clone();
        single.pattern.hours = only(&cron.pattern.hours, hour)?;
        single.pattern.minutes = only(&cron.pattern.minutes, minute)?;
        single.pattern.seconds = only(&cron.pattern.seconds, second)?;
        Ok(single)
    };
    times.map(single).collect()
}

/// The same field with this value alone.
fn only(field: &CronComponent, value: u16) -> Result<CronComponent, CronError> {
    let mut only = CronComponent::new(field.min, field.max, 0, 0);
    only.parse(&value.to_string())?;
    Ok(only)
}

/// The same as [`CronTicks::nearest`] for one expression.
///
/// The library does not look beyond a gap of more than two hours that contains a fixed time. Such a gap is a day that a
/// time zone has left out, and has no ticks, so the search goes on behind it.
fn nearest(cron: &Cron, from: DateTime<Tz>, direction: Direction) -> Option<DateTime<Utc>> {
    let zone = from.timezone();
    let (mut from, mut inclusive) = (from, direction == Direction::Backward);
    loop {
        let found = match direction {
            Direction::Forward => cron.find_next_occurrence(&from, inclusive),
            Direction::Backward => cron.find_previous_occurrence(&from, inclusive),
        };
        if let Ok(tick) = found {
            return Some(tick.to_utc());
        }
        // By a clock that has no gaps. If there is no tick either, the expression has no more.
        let clock = from.naive_local().and_utc();
        let (missing, step) = match direction {
            Direction::Forward => (cron.find_next_occurrence(&clock, inclusive).ok()?, GAP_STEP),
            Direction::Backward => (cron.find_previous_occurrence(&clock, inclusive).ok()?, -GAP_STEP),
        };
        // The first second of a minute behind the gap, or the last one of a minute before it.
        let edge = if direction == Direction::Forward { 0 } else { 59 };
        let missing = missing.naive_utc().with_second(edge)?;
        let steps = std::iter::successors(Some(missing), |time| time.checked_add_signed(step));
        let mut steps = steps.take_while(|time| (*time - missing).abs() <= LONGEST_GAP);
        let behind = steps.find_map(|time| zone.from_local_datetime(&time).earliest())?;
        if (behind > from) != (direction == Direction::Forward) {
            return None;
        }
        (from, inclusive) = (behind, true);
    }
}
