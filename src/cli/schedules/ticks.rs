//! The ticks of a schedule.

use chrono::{DateTime, Utc};
use diesel_jobs_core::{InvalidSchedule, Schedule};
use serde::Serialize;

/// How many next ticks are shown.
const NEXT: usize = 5;

#[derive(Serialize)]
pub(super) struct Tick {
    at: DateTime<Utc>,
    /// By the clock of the schedule's time zone.
    local: String,
}

impl Tick {
    pub(super) fn text(&self) -> String {
        format!("{} ({})", self.local, super::output::time(self.at))
    }
}

/// The next ticks, after this newest one.
pub(super) fn next(schedule: &Schedule, last_tick: DateTime<Utc>, now: DateTime<Utc>) -> Vec<Tick> {
    schedule.next_ticks(last_tick, now).take(NEXT).map(|at| Tick { at, local: schedule.local(at) }).collect()
}

/// The ticks from one instant to another, both included, and at most one more than `most`.
pub(super) fn between(
    expression: &str,
    timezone: &str,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    most: usize,
) -> Result<Vec<DateTime<Utc>>, InvalidSchedule> {
    let schedule = Schedule::parse(expression, timezone)?;
    let first = schedule.next_after(from - chrono::TimeDelta::seconds(1));
    let ticks = std::iter::successors(first, |last| schedule.next_after(*last));
    Ok(ticks.skip_while(|at| *at < from).take_while(|at| *at <= to).take(most + 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text).unwrap().to_utc()
    }

    #[test]
    fn both_ends_belong_to_a_backfill() {
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T03:00:00Z"));
        let hours = |most| between("0 0 * * * *", "UTC", from, to, most).unwrap();
        assert_eq!(hours(100), [from, at("2026-01-01T01:00:00Z"), at("2026-01-01T02:00:00Z"), to]);
        assert_eq!(hours(2).len(), 3, "one more than the most");
        assert!(between("0 0 * * * *", "UTC", to, from, 9).unwrap().is_empty());
    }

    #[test]
    fn next_ticks_follow_the_clock_of_the_zone() {
        let schedule = Schedule::parse("0 30 2 * * *", "Europe/Paris").unwrap();
        let ticks = next(&schedule, at("2026-03-28T00:00:00Z"), at("2026-03-20T00:00:00Z"));
        assert_eq!(ticks.len(), 5);
        assert_eq!(ticks[0].text(), "2026-03-28 02:30:00 CET (2026-03-28 01:30:00Z)");
        // There is no half past two on this day.
        assert_eq!(ticks[1].text(), "2026-03-29 03:00:00 CEST (2026-03-29 01:00:00Z)");
    }
}
