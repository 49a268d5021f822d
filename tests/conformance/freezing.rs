//! Operations on the whole database: the freeze, the environment, and the cancellation of all jobs of a copy.

use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs_core::storage::{RescanReason, Rescanned};
use diesel_jobs_core::{Installation, JobState, Keep, Transition};
use diesel_jobs_storage::Database;
use serde_json::{Value, json};

use crate::bench::*;
use crate::fixture::Fixture;
use crate::scheduling::{declare, declared, stored};

async fn freeze(db: &Database) {
    assert!(db.operator.freeze("anna", "restored for ticket 7").await.unwrap());
}

async fn thaw(db: &Database) {
    assert!(db.operator.thaw("bert").await.unwrap());
}

async fn installation(db: &Database) -> Installation {
    db.storage.check_schema().await.unwrap()
}

pub(crate) async fn nothing_is_claimed_while_it_is_frozen_and_everything_after_a_thaw<F: Fixture>(f: F) {
    let db = f.database();
    assert_eq!(installation(db).await, Installation::default());
    let worker = worker(db).await;
    let before = enqueue_all(&f, vec![job(), with(|job| job.priority = 3)]).await;
    freeze(db).await;
    let during = enqueue(&f, with(|job| job.queue = "mail".into())).await;
    let wants = wants(worker, &[("default", 10), ("mail", 10)]);
    // Neither another process nor a claim that bypasses the claim limit gets a job.
    let (again, bypassing) =
        (f.again().await, diesel_jobs_core::storage::Claim { bypass_limit: true, ..wants.clone() });
    for _ in 0..3 {
        assert_eq!(db.storage.claim(&wants).await.unwrap().len(), 0);
        assert_eq!(again.storage.claim(&bypassing).await.unwrap().len(), 0);
        assert_eq!(db.storage.next_due(&wants, ANY_TIME).await.unwrap(), None);
        assert_eq!(db.storage.rescan(&bypassing, RescanReason::Requested).await.unwrap(), Rescanned::Nothing);
    }
    let frozen = installation(db).await.frozen.expect("it is frozen");
    assert_eq!((&*frozen.by, &*frozen.reason), ("anna", "restored for ticket 7"));
    assert!(close(frozen.at, now(db).await));
    thaw(db).await;
    assert_eq!(installation(db).await, Installation::default());
    assert_eq!(db.storage.next_due(&wants, ANY_TIME).await.unwrap(), Some(Duration::ZERO));
    let mut got = ids(&db.storage.claim(&wants).await.unwrap());
    got.sort();
    assert_eq!(got, [before[0], before[1], during]);
    assert!(!db.operator.thaw("bert").await.unwrap());
}

pub(crate) async fn a_heartbeat_says_whether_it_is_frozen<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut heartbeat = db.storage.open_heartbeat(worker).await.unwrap();
    assert!(!heartbeat.beat(false, HOUR).await.unwrap().unwrap().frozen);
    freeze(db).await;
    assert!(heartbeat.beat(false, HOUR).await.unwrap().unwrap().frozen);
    thaw(db).await;
    assert!(!heartbeat.beat(false, HOUR).await.unwrap().unwrap().frozen);
}

pub(crate) async fn what_runs_goes_on_while_it_is_frozen<F: Fixture>(f: F) {
    let db = f.database();
    let (worker, dead) = (worker(db).await, mortal(db).await);
    let running = claimed(&f, worker, job()).await;
    let orphan = claimed(&f, dead, job()).await.lease.job;
    freeze(db).await;
    assert!(db.storage.open_heartbeat(worker).await.unwrap().beat(false, HOUR).await.unwrap().is_some());
    assert!(finish(db, &running, DONE).await);
    assert_eq!(rescue(db, POLICY).await.returned, [orphan]);
    assert_eq!(state(db, orphan).await, JobState::Available);
    assert_eq!(claim(db, worker, 10).await.len(), 0);
}

pub(crate) async fn quarantined_jobs_schedules_and_history_wait_for_the_thaw<F: Fixture>(f: F) {
    let db = f.database();
    let (worker, dead) = (worker(db).await, mortal(db).await);
    let ended = claimed(&f, worker, job()).await;
    assert!(finish(db, &ended, Transition::Complete(Keep::For(Duration::from_millis(1)))).await);
    let quarantined = claimed(&f, dead, job()).await.lease.job;
    rescue(db, POLICY).await;
    declare(db, &[declared("nightly")]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    let next = schedule.last_tick + TimeDelta::seconds(1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let wants = diesel_jobs_core::storage::Claim { quarantined_at: 1, ..wants(worker, &[("default", 1)]) };

    freeze(db).await;
    assert_eq!(db.storage.claim(&wants.for_quarantined()).await.unwrap().pop().map(|job| job.lease.job), None);
    assert!(!db.storage.tick(&schedule, next, &[job()]).await.unwrap());
    assert_eq!(stored(db, "nightly").await.unwrap().last_tick, schedule.last_tick);
    assert_eq!(db.storage.prune(10).await.unwrap(), 0);

    thaw(db).await;
    assert_eq!(
        db.storage.claim(&wants.for_quarantined()).await.unwrap().pop().map(|job| job.lease.job),
        Some(quarantined)
    );
    assert!(db.storage.tick(&schedule, next, &[job()]).await.unwrap());
    assert_eq!(db.storage.prune(10).await.unwrap(), 1);
}

pub(crate) async fn a_second_freeze_changes_nothing_and_hostile_words_are_only_words<F: Fixture>(f: F) {
    let db = f.database();
    let words = "'; drop table ready; -- \\ \u{1f9ca}";
    assert!(db.operator.freeze(words, words).await.unwrap());
    let first = installation(db).await;
    assert_eq!(first.frozen.as_ref().map(|freeze| (&*freeze.by, &*freeze.reason)), Some((words, words)));
    assert!(!f.again().await.operator.freeze("bert", "another reason").await.unwrap());
    assert_eq!(installation(db).await, first);
}

pub(crate) async fn an_environment_is_kept_beside_a_freeze<F: Fixture>(f: F) {
    let db = f.database();
    let name = async |name: Option<&str>| db.operator.set_environment(name, "anna").await.unwrap();
    assert!(name(Some("production")).await);
    assert!(!name(Some("production")).await, "it was the name already");
    assert_eq!(installation(db).await.environment.as_deref(), Some("production"));
    freeze(db).await;
    assert!(name(Some("staging")).await);
    let both = installation(db).await;
    assert!(both.environment.as_deref() == Some("staging") && both.frozen.is_some(), "{both:?}");
    thaw(db).await;
    assert_eq!(installation(db).await.environment.as_deref(), Some("staging"));
    assert!(name(None).await);
    assert!(!name(None).await);
    assert_eq!(installation(db).await, Installation::default());
}

/// What the audit says, oldest first.
async fn audited(db: &Database) -> Vec<(String, String, String, Option<Value>)> {
    let mut records = db.operator.audit(None, 100).await.unwrap();
    records.reverse();
    records.into_iter().map(|record| (record.actor, record.action, record.target, record.detail)).collect()
}

pub(crate) async fn changes_of_the_whole_database_are_audited_once<F: Fixture>(f: F) {
    let db = f.database();
    for _ in 0..2 {
        db.operator.set_environment(Some("production"), "cleo").await.unwrap();
        db.operator.freeze("anna", "an incident").await.unwrap();
    }
    for _ in 0..2 {
        db.operator.thaw("bert").await.unwrap();
        db.operator.set_environment(None, "cleo").await.unwrap();
    }
    db.operator.forget_missed_ticks("dora").await.unwrap();
    let expected = [
        ("cleo", "set_environment", "the database", Some(json!({ "environment": "production", "before": null }))),
        ("anna", "freeze", "the database", Some(json!({ "reason": "an incident" }))),
        ("bert", "thaw", "the database", None),
        ("cleo", "set_environment", "the database", Some(json!({ "environment": null, "before": "production" }))),
        ("dora", "forget_missed_ticks", "all schedules", None),
    ];
    let expected = expected.map(|(who, did, to, detail)| (who.to_owned(), did.to_owned(), to.to_owned(), detail));
    assert_eq!(audited(db).await, expected);
    // Without an actor nothing is changed.
    assert!(db.operator.freeze(" ", "an incident").await.is_err());
    assert!(db.operator.set_environment(Some("staging"), "").await.is_err());
    assert!(db.operator.cancel_enqueued_before(now(db).await, 10, "").await.is_err());
    assert_eq!((installation(db).await, audited(db).await.len()), (Installation::default(), expected.len()));
}

pub(crate) async fn jobs_that_are_cancelled_with_all_others_are_in_the_audit<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await.lease.job;
    let waiting = enqueue(&f, later(HOUR)).await;
    let moment = now(db).await + TimeDelta::seconds(1);
    assert_eq!(db.operator.cancel_enqueued_before(moment, 10, "anna").await.unwrap(), 2);
    assert_eq!(db.operator.cancel_enqueued_before(moment, 10, "anna").await.unwrap(), 0);
    let ids = json!({ "ids": [running, waiting] });
    let entry = ("anna".to_owned(), "cancel".to_owned(), "2 jobs".to_owned(), Some(ids));
    assert_eq!(audited(db).await, [entry]);
    assert_eq!(failures(db, waiting).await[0].actor.as_deref(), Some("anna"));
}

pub(crate) async fn cancelling_all_leaves_what_was_enqueued_since_and_what_is_newer<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await;
    let completed = claimed(&f, worker, job()).await;
    assert!(finish(db, &completed, DONE).await);
    let large = with(|job| job.args = format!("\"{}\"", "x".repeat(5000)));
    let waiting = enqueue_all(&f, vec![job(), later(HOUR), large]).await;
    let newer = enqueue(&f, job()).await;
    crate::newer::flag(&f, newer).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let moment = now(db).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let since = enqueue(&f, job()).await;

    let mut cancelled = Vec::new();
    loop {
        match db.operator.cancel_enqueued_before(moment, 2, "anna").await.unwrap() {
            0 => break,
            number => cancelled.push(number),
        }
    }
    assert_eq!(cancelled.iter().sum::<usize>(), 4, "{cancelled:?}");
    assert!(cancelled.len() > 1, "{cancelled:?}");
    for id in waiting.iter().copied().chain([running.lease.job]) {
        assert_eq!(state(db, id).await, JobState::Cancelled);
        assert_eq!(failures(db, id).await.len(), 1);
    }
    assert_eq!(record(db, waiting[2]).await.args.len(), 5002);
    assert_eq!(state(db, completed.lease.job).await, JobState::Completed);
    assert_eq!((state(db, newer).await, state(db, since).await), (JobState::Available, JobState::Available));
    // The worker that ran the job has lost its lease.
    assert!(!finish(db, &running, DONE).await);
}

pub(crate) async fn schedules_go_on_from_now_once_their_missed_ticks_are_forgotten<F: Fixture>(f: F) {
    let db = f.database();
    declare(db, &[declared("nightly"), declared("weekly")]).await;
    let schedule = stored(db, "nightly").await.unwrap();
    let past = schedule.last_tick - TimeDelta::days(3);
    assert!(db.storage.tick(&schedule, past, &[]).await.unwrap());
    db.operator.forget_missed_ticks("anna").await.unwrap();
    for name in ["nightly", "weekly"] {
        assert!(close(stored(db, name).await.unwrap().last_tick, now(db).await), "{name}");
    }
}
