use chrono::Utc;
use diesel_jobs_core::CatchUp;
use diesel_jobs_core::storage::ScheduledJob;

use super::*;

fn facts() -> Facts {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Facts {
        queues: names(&["mail"]),
        kinds: names(&["send", "plain", "ship"]),
        schedules: names(&["send"]),
        sequences: names(&["ship"]),
        ..Facts::default()
    }
}

fn schedule(name: &str, kind: &str, paused: bool) -> StoredSchedule {
    StoredSchedule {
        name: name.to_owned(),
        kind: kind.to_owned(),
        expression: "0 0 2 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Skip,
        last_tick: Utc::now(),
        paused,
        is_added: false,
        is_changed: false,
        job: ScheduledJob::default(),
    }
}

#[test]
fn schedules_that_do_not_fit_the_code_are_warnings_unless_paused() {
    let check = |schedule| schedules(&facts(), &[schedule]).into_iter().map(|finding| finding.check).next();
    assert_eq!(check(schedule("plain", "plain", false)), Some("stale_schedule"));
    assert_eq!(check(schedule("by hand", "ship", false)), Some("schedule_in_sequence"));
    for fine in [schedule("by hand", "plain", false), schedule("send", "send", false), schedule("plain", "plain", true)]
    {
        assert_eq!(check(fine), None);
    }
}

#[test]
fn the_environment_of_the_worker_and_of_the_database_are_compared() {
    let of = |worker: Option<&str>, database: Option<&str>| {
        let facts = Facts { environment: worker.map(str::to_owned), ..facts() };
        let installation = Installation { environment: database.map(str::to_owned), ..Installation::default() };
        environment(&facts, &installation).map(|finding| finding.check)
    };
    assert_eq!(of(Some("staging"), Some("production")), Some("environment"));
    assert_eq!(of(None, Some("production")), Some("environment"));
    assert_eq!(of(Some("staging"), None), Some("unnamed_database"));
    assert_eq!((of(Some("staging"), Some("staging")), of(None, None)), (None, None));
}
