//! Checks of a database that are the same for every storage. They are pure functions.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::schedule::Schedule;
use crate::storage::{Finding, StoredSchedule};

/// How late a tick may be. Workers search for due ticks every few seconds.
const LATE: TimeDelta = TimeDelta::minutes(5);
/// How far two clocks may be apart.
const APART: Duration = Duration::from_secs(2);

/// The schedules that cannot tick, and those whose ticks are overdue. `removal` is the statement that removes a
/// schedule.
pub fn schedules(schedules: &[StoredSchedule], now: DateTime<Utc>, removal: impl Fn(&str) -> String) -> Vec<Finding> {
    schedules.iter().filter(|schedule| !schedule.paused).filter_map(|one| examine(one, now, &removal)).collect()
}

fn examine(schedule: &StoredSchedule, now: DateTime<Utc>, removal: impl Fn(&str) -> String) -> Option<Finding> {
    let StoredSchedule { name, expression, timezone, last_tick, .. } = schedule;
    match Schedule::parse(expression, timezone) {
        Err(problem) => {
            Some(Finding::error("schedule", format!("schedule `{name}` never ticks: {problem}"), removal(name)))
        }
        Ok(schedule) => {
            let due = schedule.next_after(*last_tick).filter(|due| *due < now - LATE)?;
            let due = due.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
            Some(Finding::warning(
                "overdue_schedule",
                format!("schedule `{name}` should have ticked at {due}: no worker that knows its kind is alive"),
                "worker run",
            ))
        }
    }
}

/// Compares the clock of the database with that of this machine, which was read before and after the query.
pub fn clocks(before: DateTime<Utc>, database: DateTime<Utc>, after: DateTime<Utc>) -> Option<Finding> {
    let apart = (before - database).max(database - after);
    let apart = apart.to_std().ok().filter(|apart| *apart > APART)?;
    let (seconds, which) = (apart.as_secs(), if database < before { "behind" } else { "ahead of" });
    Some(Finding::warning(
        "clock_skew",
        format!(
            "the clock of the database is {seconds} s {which} the one of this machine. Jobs run by the clock of the database, so \
             times that applications compute are early or late by that"
        ),
        "synchronise both clocks: timedatectl set-ntp true",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::CatchUp;
    use crate::storage::ScheduledJob;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    #[test]
    fn clocks_may_differ_by_the_time_of_the_query_and_two_seconds() {
        assert_eq!(clocks(at(0), at(2), at(0)), None);
        assert_eq!(clocks(at(0), at(-2), at(0)), None);
        assert_eq!(clocks(at(0), at(9), at(10)), None, "the query took 10 s");
        let ahead = clocks(at(0), at(63), at(3)).unwrap();
        assert!(ahead.what.contains("60 s ahead of"), "{ahead:?}");
        let behind = clocks(at(60), at(0), at(63)).unwrap();
        assert!(behind.what.contains("60 s behind"), "{behind:?}");
    }

    #[test]
    fn schedules_that_cannot_tick_are_errors_and_late_ones_warnings() {
        let schedule = |expression: &str, timezone: &str, minutes: i64, paused| StoredSchedule {
            name: "nightly".to_owned(),
            kind: "k".to_owned(),
            expression: expression.to_owned(),
            timezone: timezone.to_owned(),
            catch_up: CatchUp::Last,
            last_tick: at(-60 * minutes),
            paused,
            is_added: false,
            job: ScheduledJob::default(),
        };
        let found =
            |one: StoredSchedule| schedules(&[one], at(0), str::to_owned).into_iter().map(|one| one.check).next();
        assert_eq!(found(schedule("0 * * * * *", "UTC", 1, false)), None);
        assert_eq!(found(schedule("0 * * * * *", "UTC", 10, false)), Some("overdue_schedule"));
        assert_eq!(found(schedule("0 * * * * *", "UTC", 10, true)), None, "paused on purpose");
        assert_eq!(found(schedule("0 * * * * *", "Mars/Base", 1, false)), Some("schedule"));
        let bad = schedules(&[schedule("0 0 0 30 2 *", "UTC", 1, false)], at(0), str::to_owned);
        assert_eq!(bad[0].repair, "nightly", "the statement that removes it");
    }
}
