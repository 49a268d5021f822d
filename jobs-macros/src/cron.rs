//! Checks cron expressions and time zones at compile time. `diesel_jobs_core::Schedule::parse` reads them when the
//! worker starts, with the same library and rules. A test compares the two.

use chrono::DateTime;
use chrono_tz::{TZ_VARIANTS, Tz};
use croner::Direction;

use crate::cron_problem::FORMS;
use crate::cron_ticks::CronTicks;
use crate::nearest::nearest;

/// Returns the time zone, or why it does not exist.
pub(crate) fn zone(timezone: &str) -> Result<Tz, String> {
    timezone.parse().map_err(|_| {
        let hint = match nearest(timezone, TZ_VARIANTS.iter().map(|zone| zone.name())) {
            Some(zone) => format!("did you mean {zone:?}?"),
            None => "write an IANA name such as \"Europe/Paris\" or \"UTC\"".to_owned(),
        };
        format!("unknown time zone {timezone:?}; {hint}")
    })
}

/// Returns an error if the expression does not parse, or never fires in this zone.
pub(crate) fn check(expression: &str, zone: Tz) -> Result<(), String> {
    let ticks = CronTicks::parse(expression);
    let ticks = ticks.map_err(|problem| format!("cron expression {expression:?}: {problem}\n{FORMS}"))?;
    match ticks.nearest(DateTime::UNIX_EPOCH, zone, Direction::Forward) {
        Some(_) => Ok(()),
        None => Err(format!("cron expression {expression:?} never fires")),
    }
}

#[cfg(test)]
mod tests {
    use diesel_jobs_core::{InvalidSchedule, Schedule};

    /// Both must accept and refuse the same schedules.
    #[test]
    fn the_compiler_and_the_worker_agree() {
        let expressions = [
            "0 0 2 * * *",
            "*/5 * * * *",
            "0 9 * * MON-FRI",
            "0 0 L * *",
            "0 0 29 2 *",
            "@daily",
            "0 0 0 30 2 *",
            "0 0 31 4 *",
            "0 0 25 * * *",
            "61 * * * *",
            "every night",
            "",
            "* * * *",
            "0 0 0 1 1 * 2020",
            "0 0 0 1 1 * 1969",
            "0 9-17/2 * jan,JUL mon#2",
            "0 0 15W * ?",
            "0 0 LW * 5L",
            "0 0 * * +MON",
            "0 0 * * 7",
            "0 22-2 * * *",
            "5/10 * * * *",
            "*/0 * * * *",
            "0 0 2 * * MO",
            "*/90 * * * *",
            "every 90 minutes",
            "0 9-17/9 * * *",
            "0,30 2 30 2 *",
            "0 10-20,40 2 29 3 * 2026",
            "0 10-20,40 2 29 3 * 1926",
        ];
        let zones = ["UTC", "Europe/Paris", "America/St_Johns", "europe/paris", "CET", "Nowhere", ""];
        let mut refused = 0;
        for expression in expressions {
            for name in zones {
                let here = super::zone(name).and_then(|zone| super::check(expression, zone));
                let there = Schedule::parse(expression, name);
                assert_eq!(here.is_ok(), there.is_ok(), "{expression:?} in {name:?}: {here:?}, {there:?}");
                if let (Err(here), Err(InvalidSchedule::Expression { problem, .. })) = (&here, &there) {
                    assert!(here.contains(problem), "{here:?}, {problem:?}");
                }
                let never = matches!(there, Err(InvalidSchedule::NeverFires(_)));
                assert_eq!(here.is_err_and(|m| m.contains("never fires")), never, "{expression:?} in {name:?}");
                refused += usize::from(there.is_err());
            }
        }
        assert!((10..expressions.len() * zones.len()).contains(&refused), "the table shows both sides");
    }
}
