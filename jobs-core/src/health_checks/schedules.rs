//! Schedules that do not tick, or not as the code of a live worker declares them.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::servers::{Servers, Whose, more_differ, named};
use crate::record::WorkerRecord;
use crate::schedule::Schedule;
use crate::shell::argument;
use crate::storage::{Finding, Program, StoredSchedule};

/// How late a tick may be. Workers search for due ticks every few seconds.
const LATE: TimeDelta = TimeDelta::minutes(5);

/// The schedules that cannot tick, those whose kind nobody knows, and those whose ticks are overdue or wait for the
/// database's clock. Each of them is named once. Then those that a live worker declares otherwise. While the database
/// is frozen, none is overdue. `removal` is the statement that removes a schedule which no operator has added, and
/// `restart` the one that lets a schedule go on from now.
pub fn schedules(
    schedules: &[StoredSchedule],
    workers: &[WorkerRecord],
    program: Option<&Program>,
    now: DateTime<Utc>,
    is_frozen: bool,
    removal: impl Fn(&str) -> String,
    restart: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let servers = Servers::of(workers, program);
    let running = schedules.iter().filter(|schedule| !schedule.paused);
    let late_from = if is_frozen { DateTime::<Utc>::MIN_UTC } else { now - LATE };
    let examined = running.filter_map(|one| {
        let stands_still = || stands_still(one, now, &restart);
        examine(one, &servers, late_from, &removal).or_else(stands_still)
    });
    examined.chain(schedules.iter().filter_map(|one| declared_otherwise(one, workers))).collect()
}

/// A live worker declares the schedule otherwise than it is stored.
fn declared_otherwise(schedule: &StoredSchedule, workers: &[WorkerRecord]) -> Option<Finding> {
    let StoredSchedule { name, expression, timezone, catch_up, .. } = schedule;
    let live = workers.iter().filter(|worker| worker.alive && worker.draining_at.is_none());
    let mut others = live.filter_map(|worker| {
        let declared = worker.schedules.get(name).filter(|declared| !schedule.follows(declared))?;
        Some((worker, declared))
    });
    let (worker, declared) = others.next()?;
    let (worker, more) = (named(worker), more_differ(others.count()));
    Some(Finding::warning(
        "schedule_declared_otherwise",
        format!(
            "schedule `{name}` is `{expression}` in {timezone} with catch_up {catch_up}, and the live worker {worker} declares \
             `{}` in {} with catch_up {}{more}",
            declared.expression, declared.timezone, declared.catch_up
        ),
        "end the workers of the program whose declaration should not apply: the stored schedule stays as long as a live worker \
         declares it, and is replaced within seconds after the last of them has ended",
    ))
}

fn examine(
    schedule: &StoredSchedule,
    servers: &Servers<'_>,
    late_from: DateTime<Utc>,
    removal: impl Fn(&str) -> String,
) -> Option<Finding> {
    let StoredSchedule { name, kind, expression, timezone, last_tick, is_added, .. } = schedule;
    // The command only pauses a schedule that code has declared, because workers would store it again.
    let removal =
        |name: &str| if *is_added { format!("worker schedules remove {}", argument(name)) } else { removal(name) };
    let ticks = match Schedule::parse(expression, timezone) {
        Err(problem) => {
            return Some(Finding::error(
                "schedule",
                format!("schedule `{name}` never ticks: {problem}"),
                removal(name),
            ));
        }
        Ok(ticks) => ticks,
    };
    if servers.whose != Whose::Nobody && !servers.know(kind) {
        let who = match servers.whose {
            Whose::ProgramAlone => "this program does not know the kind",
            Whose::ProgramInstead => "neither a live worker nor this program knows the kind",
            Whose::LiveWorkers | Whose::Nobody => "no live worker knows the kind",
        };
        return Some(Finding::warning(
            "unserved_schedule",
            format!("schedule `{name}` does not tick: its jobs are of kind `{kind}`, and {who}"),
            format!("deploy a program with this kind, or remove the schedule: {}", removal(name)),
        ));
    }
    let due = ticks.next_after(*last_tick).filter(|due| *due < late_from)?;
    let due = due.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
    let (why, repair) = match servers.whose {
        Whose::LiveWorkers => (
            "a live worker knows its kind and has not ticked it; the code may no longer declare it",
            format!("read the logs of the workers, or remove the schedule: {}", removal(name)),
        ),
        _ => ("no worker that knows its kind is alive", "worker run".to_owned()),
    };
    Some(Finding::warning("overdue_schedule", format!("schedule `{name}` should have ticked at {due}: {why}"), repair))
}

/// The database's clock has gone back, and the schedule ticks only when it has come to its old time again.
fn stands_still(schedule: &StoredSchedule, now: DateTime<Utc>, restart: impl Fn(&str) -> String) -> Option<Finding> {
    let name = &schedule.name;
    let why = Schedule::stands_still(schedule.last_tick, now)?;
    Some(Finding::warning("future_tick", format!("schedule `{name}` does not tick: {why}"), restart(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health_checks::waiting::tests::worker;
    use crate::schedule::CatchUp;
    use crate::storage::ScheduledJob;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn nightly(expression: &str, timezone: &str, minutes: i64, paused: bool) -> StoredSchedule {
        StoredSchedule {
            name: "nightly".to_owned(),
            kind: "k".to_owned(),
            expression: expression.to_owned(),
            timezone: timezone.to_owned(),
            catch_up: CatchUp::Last,
            last_tick: now() - TimeDelta::minutes(minutes),
            paused,
            is_added: false,
            is_changed: false,
            job: ScheduledJob::default(),
        }
    }

    #[test]
    fn schedules_that_cannot_tick_are_errors_and_late_ones_warnings() {
        let found = |one: StoredSchedule| {
            schedules(&[one], &[], None, now(), false, str::to_owned, str::to_owned)
                .into_iter()
                .map(|one| one.check)
                .next()
        };
        assert_eq!(found(nightly("0 * * * * *", "UTC", 1, false)), None);
        assert_eq!(found(nightly("0 * * * * *", "UTC", 10, false)), Some("overdue_schedule"));
        assert_eq!(found(nightly("0 * * * * *", "UTC", 10, true)), None, "paused on purpose");
        assert_eq!(found(nightly("0 * * * * *", "Mars/Base", 1, false)), Some("schedule"));
        let bad = schedules(
            &[nightly("0 0 0 30 2 *", "UTC", 1, false)],
            &[],
            None,
            now(),
            false,
            str::to_owned,
            str::to_owned,
        );
        assert_eq!(bad[0].repair, "nightly", "the statement that removes it");
        let added =
            StoredSchedule { name: "my own".to_owned(), is_added: true, ..nightly("0 0 0 30 2 *", "UTC", 1, false) };
        let bad = schedules(&[added], &[], None, now(), false, str::to_owned, str::to_owned);
        assert_eq!(bad[0].repair, "worker schedules remove 'my own'");
    }

    #[test]
    fn a_schedule_whose_kind_nobody_knows_is_named_once() {
        let program = |kind: &str, replaces_workers| Program {
            kinds: [kind.to_owned()].into(),
            replaces_workers,
            joins_workers: false,
            ..Program::default()
        };
        let late = [nightly("0 * * * * *", "UTC", 10, false)];
        let found =
            |program: &Program| schedules(&late, &[], Some(program), now(), false, str::to_owned, str::to_owned);
        let [one] = &found(&program("other", false))[..] else { panic!("one finding") };
        assert_eq!(
            (one.check, one.what.contains("neither a live worker nor this program")),
            ("unserved_schedule", true)
        );
        assert!(found(&program("other", true))[0].what.ends_with("and this program does not know the kind"));
        assert_eq!(found(&program("k", false))[0].check, "overdue_schedule");
    }

    #[test]
    fn a_late_schedule_is_not_blamed_on_missing_workers_while_one_is_alive_or_the_database_is_frozen() {
        let late = [nightly("0 * * * * *", "UTC", 10, false)];
        let alive = [worker("mail", Some(&["k"]))];
        let found = |is_frozen| schedules(&late, &alive, None, now(), is_frozen, str::to_owned, str::to_owned);
        let [one] = &found(false)[..] else { panic!("one finding") };
        assert!(one.what.contains("a live worker knows its kind") && one.repair.ends_with("nightly"), "{one:?}");
        assert_eq!(found(true), []);
    }

    #[test]
    fn a_schedule_whose_newest_tick_is_in_the_future_is_a_warning() {
        let restart = |name: &str| format!("restart {name}");
        let found = |minutes: i64| {
            let future = [nightly("0 * * * * *", "UTC", -minutes, false)];
            schedules(&future, &[worker("mail", Some(&["k"]))], None, now(), false, str::to_owned, restart)
        };
        let [one] = &found(60)[..] else { panic!("one finding") };
        assert_eq!((one.check, one.repair.as_str()), ("future_tick", "restart nightly"));
        assert!(one.what.starts_with("schedule `nightly` does not tick: its newest tick is at"), "{}", one.what);
        assert_eq!(found(4), [], "it goes on by itself");
    }
}
