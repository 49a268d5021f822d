//! The time of a schedule's tick, as a test writes it.

use chrono::{DateTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;

use crate::handler::Registration;
use crate::schedule::{Schedule, ScheduleSpec};

/// By the clock of the schedule's time zone.
const FORMS: [&str; 4] = ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];

/// The time that `text` names, if the job's schedule ticks then. An error is the message for the test.
pub fn tick(registration: &Registration, text: &str) -> Result<DateTime<Utc>, String> {
    let kind = registration.kind;
    let Some(ScheduleSpec { expression, timezone, .. }) = registration.schedule else {
        return Err(format!(
            "job `{kind}` has neither `cron` nor `every`, so it has no ticks: use `perform(..)`, and `.run_at(..)` for its time"
        ));
    };
    let schedule = Schedule::parse(expression, timezone).map_err(|problem| format!("job `{kind}`: {problem}"))?;
    let at = time(text, schedule.zone()).map_err(|problem| format!("the tick {text:?} of job `{kind}` {problem}"))?;
    let next = schedule.next_after(at - TimeDelta::seconds(1));
    if next == Some(at) {
        return Ok(at);
    }
    let local = |at: DateTime<Utc>| at.with_timezone(&schedule.zone()).format("%Y-%m-%d %H:%M:%S").to_string();
    let next =
        next.map_or_else(|| "there is none after it".to_owned(), |at| format!("the next one is at {}", local(at)));
    Err(format!("job `{kind}` has no tick at {text} ({expression:?}, time zone {timezone}); {next}"))
}

fn time(text: &str, zone: Tz) -> Result<DateTime<Utc>, String> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.to_utc());
    }
    let Some(local) = FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()) else {
        return Err(format!(
            "is no time: write \"2026-03-01 02:00\", by the clock of {zone}, or \"2026-03-01T02:00:00Z\""
        ));
    };
    let time = zone.from_local_datetime(&local).earliest();
    time.map(|time| time.to_utc()).ok_or_else(|| format!("is a time that does not exist in {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_found_by_the_clock_of_its_zone_or_refused() {
        let berlin = chrono_tz::Europe::Berlin;
        assert_eq!(time("2026-07-01 02:00", berlin).unwrap().to_rfc3339(), "2026-07-01T00:00:00+00:00");
        assert_eq!(time("2026-07-01T02:00:30", berlin).unwrap().to_rfc3339(), "2026-07-01T00:00:30+00:00");
        assert_eq!(time("2026-07-01T02:00:00Z", berlin).unwrap().to_rfc3339(), "2026-07-01T02:00:00+00:00");
        assert_eq!(time("2026-03-29 02:30", berlin).unwrap_err(), "is a time that does not exist in Europe/Berlin");
        assert!(time("tomorrow", berlin).unwrap_err().starts_with("is no time: write \"2026-03-01 02:00\""));
    }
}
