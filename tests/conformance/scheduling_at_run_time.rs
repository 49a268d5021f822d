//! What operators do with schedules.

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::{
    Action, DeclaredSchedule, LastRun, NewSchedule, Operated, ScheduleChange, ScheduleRecord, Scheduled, ScheduledJob,
};
use diesel_jobs_core::{CatchUp, JobState, RunAt, StorageError};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::scheduling::{declare, declared, stored};
use crate::setting::audited;

fn new(name: &str, kind: &str) -> NewSchedule {
    NewSchedule {
        name: name.to_owned(),
        kind: kind.to_owned(),
        expression: "0 */5 * * * *".to_owned(),
        timezone: "Europe/Paris".to_owned(),
        catch_up: CatchUp::Skip,
        job: ScheduledJob {
            args: Some(r#"{"name":"x\u0000"}"#.to_owned()),
            queue: Some("mail".to_owned()),
            priority: Some(-3),
            max_attempts: Some(7),
        },
    }
}

async fn record(db: &Database, name: &str) -> Option<ScheduleRecord> {
    db.operator.list_schedules().await.unwrap().0.into_iter().find(|schedule| schedule.name == name)
}

fn at_three() -> ScheduleChange {
    ScheduleChange { expression: Some("0 0 3 * * *".to_owned()), ..ScheduleChange::default() }
}

pub(crate) async fn an_added_schedule_is_the_operators<F: Fixture>(f: F) {
    let db = f.database();
    let new = new("every five minutes", "a");
    assert_eq!(db.operator.add_schedule(&new, "ada").await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.add_schedule(&new, "bert").await.unwrap(), Scheduled::Exists);
    let shown = record(db, &new.name).await.unwrap();
    assert_eq!((shown.added_by.as_deref(), shown.changed_by, shown.declared), (Some("ada"), None, None));
    assert_eq!((shown.kind.as_str(), &shown.job, shown.newer), ("a", &new.job, false));
    assert!(close(shown.last_tick, now(db).await));
    let read = stored(db, &new.name).await.unwrap();
    assert_eq!((read.is_added, &read.job), (true, &new.job));
    // Programs of earlier versions leave rows with this flag alone.
    let table = F::table("schedule");
    assert_eq!(f.client().await.number(&format!("select count(*) as number from {table} where flags = 1")).await, 1);
    let tick = read.last_tick + TimeDelta::minutes(5);
    let options = diesel_jobs_core::JobOptions::new();
    let made = read.job.at(&read.kind, &options, RunAt::Now);
    assert!(db.storage.tick(&read, tick, &[made]).await.unwrap());
    let listed = db.operator.list_all(&diesel_jobs_core::storage::JobFilter::default(), 9).await.unwrap();
    let job = &listed[0];
    assert_eq!((job.queue.as_str(), job.priority, job.max_attempts), ("mail", -3, 7));
    assert_eq!(job.args, r#"{"name":"x\u0000"}"#);
    assert_eq!(audited(&f, "ada", "add", "schedule every five minutes").await, 1);
}

pub(crate) async fn a_changed_schedule_is_not_overwritten_and_can_be_reset<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly")]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    assert!(db.storage.tick(&schedule, schedule.last_tick - TimeDelta::days(3), &[]).await.unwrap());
    assert_eq!(db.operator.change_schedule("nightly", &at_three(), "ada").await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.change_schedule("nightly", &at_three(), "bert").await.unwrap(), Scheduled::Unchanged);
    let shown = record(db, "nightly").await.unwrap();
    assert_eq!((shown.expression.as_str(), shown.changed_by.as_deref()), ("0 0 3 * * *", Some("ada")));
    assert_eq!(shown.declared, Some(declared("nightly")));
    assert!(close(shown.last_tick, now(db).await), "it goes on from now");
    // Workers start, with the same code and with changed code.
    declare(db, &[declared("nightly")]).await;
    assert_eq!(stored(db, "nightly").await.unwrap().expression, "0 0 3 * * *");
    let newer =
        DeclaredSchedule { expression: "0 0 4 * * *".to_owned(), catch_up: CatchUp::All, ..declared("nightly") };
    declare(db, std::slice::from_ref(&newer)).await;
    assert_eq!(stored(db, "nightly").await.unwrap().expression, "0 0 3 * * *");
    assert_eq!(db.operator.reset_schedule("nightly", "bert").await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.reset_schedule("nightly", "bert").await.unwrap(), Scheduled::Unchanged);
    let shown = record(db, "nightly").await.unwrap();
    assert_eq!((shown.expression.as_str(), shown.catch_up), ("0 0 4 * * *", CatchUp::All));
    assert_eq!((shown.changed_by, shown.changed_at, shown.declared), (None, None, None));
    // Now workers follow the code again.
    declare(db, &[declared("nightly")]).await;
    assert_eq!(stored(db, "nightly").await.unwrap().expression, declared("nightly").expression);
    assert_eq!(audited(&f, "ada", "change", "schedule nightly").await, 1);
    assert_eq!(audited(&f, "bert", "reset", "schedule nightly").await, 1);
    assert_eq!(db.operator.change_schedule("other", &at_three(), "ada").await.unwrap(), Scheduled::NotFound);
}

pub(crate) async fn the_code_may_declare_what_an_operator_has_added<F: Fixture>(f: F) {
    let db = f.database();
    db.operator.add_schedule(&new("a", "a"), "ada").await.unwrap();
    declare(db, &[declared("a")]).await;
    let shown = record(db, "a").await.unwrap();
    assert_eq!((shown.expression.as_str(), shown.added_by.as_deref()), ("0 */5 * * * *", Some("ada")));
    assert_eq!(shown.declared, Some(declared("a")));
    assert_eq!(db.operator.reset_schedule("a", "bert").await.unwrap(), Scheduled::Done);
    let shown = record(db, "a").await.unwrap();
    assert_eq!(
        (shown.added_by, shown.job, shown.expression),
        (None, ScheduledJob::default(), declared("a").expression)
    );
}

pub(crate) async fn pauses_and_resumes_are_answered<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly")]).await;
    assert_eq!(db.operator.pause_schedule("nightly", "ada", Some("a move")).await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.pause_schedule("nightly", "bert", None).await.unwrap(), Scheduled::Unchanged);
    let shown = record(db, "nightly").await.unwrap().paused.unwrap();
    assert_eq!((shown.by.as_deref(), shown.reason.as_deref()), (Some("ada"), Some("a move")));
    let schedule = stored(db, "nightly").await.unwrap();
    assert!(schedule.paused && !db.storage.tick(&schedule, schedule.last_tick, &[]).await.unwrap());
    assert_eq!(db.operator.resume_schedule("nightly", "bert").await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.resume_schedule("nightly", "bert").await.unwrap(), Scheduled::Unchanged);
    assert_eq!(record(db, "nightly").await.unwrap().paused, None);
    assert_eq!(db.operator.pause_schedule("other", "ada", None).await.unwrap(), Scheduled::NotFound);
    assert_eq!(db.operator.resume_schedule("other", "ada").await.unwrap(), Scheduled::NotFound);
}

pub(crate) async fn only_added_schedules_are_removed<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly")]).await;
    db.operator.add_schedule(&new("mine", "a"), "ada").await.unwrap();
    assert_eq!(db.operator.remove_schedule("nightly", "ada").await.unwrap(), Scheduled::Declared);
    assert_eq!(db.operator.remove_schedule("mine", "ada").await.unwrap(), Scheduled::Done);
    assert_eq!(db.operator.remove_schedule("mine", "ada").await.unwrap(), Scheduled::NotFound);
    assert!(record(db, "mine").await.is_none() && record(db, "nightly").await.is_some());
    assert_eq!(audited(&f, "ada", "remove", "schedule mine").await, 1);
}

pub(crate) async fn jobs_are_enqueued_outside_the_ticks<F: Fixture>(f: F) {
    let db = f.database();
    db.operator.add_schedule(&new("mine", "a"), "ada").await.unwrap();
    let last_tick = record(db, "mine").await.unwrap().last_tick;
    let past: DateTime<Utc> = last_tick - TimeDelta::hours(3);
    let jobs = [with(|job| job.run_at = RunAt::Exactly(past)), job()];
    let answer = db.operator.enqueue_for_schedule("mine", &jobs, "backfill", "bert").await.unwrap();
    assert_eq!(answer, Scheduled::Done);
    let listed = db.operator.list_all(&diesel_jobs_core::storage::JobFilter::default(), 9).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|job| job.run_at == past), "a past tick keeps its time");
    assert_eq!(record(db, "mine").await.unwrap().last_tick, last_tick);
    let other = db.operator.enqueue_for_schedule("other", &jobs, "trigger", "bert").await.unwrap();
    assert_eq!(other, Scheduled::NotFound);
    // One job that cannot be enqueued keeps all from being enqueued.
    let wrong = [job(), with(|job| job.queue = "".into())];
    assert!(db.operator.enqueue_for_schedule("mine", &wrong, "trigger", "bert").await.is_err());
    assert_eq!(db.operator.list_all(&diesel_jobs_core::storage::JobFilter::default(), 9).await.unwrap().len(), 2);
    assert_eq!(audited(&f, "bert", "backfill", "schedule mine").await, 1);
}

pub(crate) async fn schedules_that_cannot_work_are_refused<F: Fixture>(f: F) {
    let db = f.database();
    let fine = new("mine", "a");
    let wrong = [
        (NewSchedule { expression: "0 0 30 2 * *".to_owned(), ..fine.clone() }, "cron expression"),
        (NewSchedule { timezone: "Paris".to_owned(), ..fine.clone() }, "unknown time zone"),
        (NewSchedule { name: String::new(), ..fine.clone() }, "schedule"),
        (NewSchedule { kind: String::new(), ..fine.clone() }, "kind"),
        (
            NewSchedule { job: ScheduledJob { args: Some("[1]".to_owned()), ..fine.job.clone() }, ..fine.clone() },
            "object",
        ),
        (
            NewSchedule { job: ScheduledJob { args: Some("{".to_owned()), ..fine.job.clone() }, ..fine.clone() },
            "not JSON",
        ),
        (
            NewSchedule { job: ScheduledJob { max_attempts: Some(0), ..fine.job.clone() }, ..fine.clone() },
            "max_attempts",
        ),
        (NewSchedule { job: ScheduledJob { queue: Some(String::new()), ..fine.job.clone() }, ..fine.clone() }, "queue"),
    ];
    for (schedule, part) in wrong {
        let refused = db.operator.add_schedule(&schedule, "ada").await.unwrap_err();
        assert!(matches!(refused, StorageError::Config(_)) && refused.to_string().contains(part), "{refused}");
    }
    assert!(db.operator.list_schedules().await.unwrap().0.is_empty());
    db.operator.add_schedule(&fine, "ada").await.unwrap();
    let change = ScheduleChange { timezone: Some("Mars/Olympus".to_owned()), ..ScheduleChange::default() };
    assert!(db.operator.change_schedule("mine", &change, "ada").await.is_err());
    let change = ScheduleChange { expression: Some("sometimes".to_owned()), ..ScheduleChange::default() };
    assert!(db.operator.change_schedule("mine", &change, "ada").await.is_err());
    assert_eq!(record(db, "mine").await.unwrap().changed_by, None);
}

pub(crate) async fn a_schedule_of_a_later_version_is_left_alone<F: Fixture>(f: F) {
    let db = f.database();
    db.operator.add_schedule(&new("mine", "a"), "ada").await.unwrap();
    let table = F::table("schedule");
    f.client().await.execute(&format!("update {table} set flags = 3")).await.unwrap();
    assert!(record(db, "mine").await.unwrap().newer, "it is shown");
    assert!(stored(db, "mine").await.is_none(), "and does not tick here");
    assert_eq!(db.operator.pause_schedule("mine", "ada", None).await.unwrap(), Scheduled::Newer);
    assert_eq!(db.operator.change_schedule("mine", &at_three(), "ada").await.unwrap(), Scheduled::Newer);
    assert_eq!(db.operator.reset_schedule("mine", "ada").await.unwrap(), Scheduled::Newer);
    assert_eq!(db.operator.remove_schedule("mine", "ada").await.unwrap(), Scheduled::Newer);
    assert_eq!(db.operator.enqueue_for_schedule("mine", &[job()], "trigger", "ada").await.unwrap(), Scheduled::Newer);
}

/// Not other jobs of the kind, and also if many jobs have been enqueued since.
pub(crate) async fn the_last_run_is_the_newest_job_of_the_schedule<F: Fixture>(f: F) {
    let db = f.database();
    for name in ["mine", "other"] {
        db.operator.add_schedule(&new(name, "a"), "ada").await.unwrap();
        assert_eq!(record(db, name).await.unwrap().last_run, None);
    }
    let worker = worker(db).await;
    let of_others = claimed(&f, worker, job()).await;
    assert!(finish(db, &of_others, discard()).await);
    assert_eq!(record(db, "mine").await.unwrap().last_run, None, "this job is of no schedule");

    let schedule = stored(db, "mine").await.unwrap();
    let tick = schedule.last_tick + TimeDelta::minutes(5);
    assert!(db.storage.tick(&schedule, tick, &[job(), job()]).await.unwrap());
    let ticked = record(db, "mine").await.unwrap().last_run.unwrap();
    assert!(close(ticked.at, now(db).await));
    assert_eq!(ticked.state, Some(JobState::Available));
    // Missed ticks that enqueue nothing are no runs.
    let schedule = stored(db, "mine").await.unwrap();
    assert!(db.storage.tick(&schedule, tick + TimeDelta::minutes(5), &[]).await.unwrap());
    assert_eq!(record(db, "mine").await.unwrap().last_run, Some(ticked));
    for leased in claim(db, worker, 2).await {
        assert!(finish(db, &leased, if leased.lease.job == ticked.job { discard() } else { DONE }).await);
    }
    assert_eq!(record(db, "mine").await.unwrap().last_run.unwrap().state, Some(JobState::Discarded));
    assert_eq!(record(db, "other").await.unwrap().last_run, None);

    assert_eq!(db.operator.enqueue_for_schedule("mine", &[job()], "trigger", "ada").await.unwrap(), Scheduled::Done);
    let triggered = record(db, "mine").await.unwrap().last_run.unwrap();
    assert!(triggered.job > ticked.job && triggered.state == Some(JobState::Available));
    assert_eq!(db.operator.act(&Action::Cancel, &[triggered.job], "ada").await.unwrap(), [Operated::Done]);
    assert_eq!(db.operator.act(&Action::Delete, &[triggered.job], "ada").await.unwrap(), [Operated::Done]);
    assert_eq!(record(db, "mine").await.unwrap().last_run, Some(LastRun { state: None, ..triggered }));
}
