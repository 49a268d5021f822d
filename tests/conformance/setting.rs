//! What operators set at run time: pauses, slots, retention, and what they ask of workers.

use std::time::Duration;

use diesel_jobs_core::storage::{Asked, Keep, Pause, RetentionSetting, WorkerInfo};
use diesel_jobs_core::{JobState, NewJob, StorageError, WorkerId};

use crate::bench::*;
use crate::fixture::Fixture;

/// How many rows of the audit match.
pub(crate) async fn audited<F: Fixture>(f: &F, actor: &str, action: &str, target: &str) -> i64 {
    let table = F::table("audit");
    f.client()
        .await
        .number(&format!(
            "select count(*) as number from {table} where actor = '{actor}' and action = '{action}' and target = '{target}'"
        ))
        .await
}

pub(crate) async fn a_queue_is_paused_and_resumed_once_and_each_is_in_the_audit<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    assert!(operator.queues().await.unwrap().is_empty());
    assert!(operator.pause_queue("default", "ada", Some("it's \"late\"")).await.unwrap());
    assert!(!operator.pause_queue("default", "bert", Some("me too")).await.unwrap());
    let queues = operator.queues().await.unwrap();
    let Pause { at, by, reason } = queues[0].paused.clone().unwrap();
    assert_eq!((queues.len(), queues[0].name.as_str(), queues[0].slots), (1, "default", None));
    assert_eq!((by.as_deref(), reason.as_deref()), (Some("ada"), Some("it's \"late\"")));
    assert!(close(at.unwrap(), now(db).await));
    enqueue(&f, job()).await;
    assert!(claim(db, worker, 1).await.is_empty());

    assert!(operator.resume_queue("default", "bert").await.unwrap());
    assert!(!operator.resume_queue("default", "bert").await.unwrap());
    assert!(!operator.resume_queue("never heard of", "bert").await.unwrap());
    assert!(operator.queues().await.unwrap().is_empty());
    assert_eq!(claim(db, worker, 1).await.len(), 1);
    assert_eq!(operator.running_in("default").await.unwrap(), 1);
    assert_eq!(operator.running_in("other").await.unwrap(), 0);
    assert_eq!(audited(&f, "ada", "pause", "queue default").await, 1);
    assert_eq!(audited(&f, "bert", "pause", "queue default").await, 0, "it changed nothing");
    assert_eq!(audited(&f, "bert", "resume", "queue default").await, 1);
}

pub(crate) async fn a_kind_is_paused_and_resumed_once<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    assert!(operator.pause_kind("b", "ada", Some("a bug")).await.unwrap());
    assert!(operator.pause_kind("a", "ada", None).await.unwrap());
    assert!(!operator.pause_kind("a", "ada", Some("again")).await.unwrap());
    let kinds = operator.kinds().await.unwrap();
    assert_eq!(kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(kinds[0].paused.clone().unwrap().reason, None);
    assert_eq!(kinds[1].paused.clone().unwrap().reason.as_deref(), Some("a bug"));
    assert!(operator.resume_kind("a", "ada").await.unwrap() && !operator.resume_kind("a", "ada").await.unwrap());
    assert_eq!(operator.kinds().await.unwrap().len(), 1);
    assert_eq!(audited(&f, "ada", "pause", "kind a").await, 1);
    assert_eq!(audited(&f, "ada", "resume", "kind a").await, 1);
}

pub(crate) async fn a_pause_by_sql_is_shown_without_its_author<F: Fixture>(f: F) {
    let table = F::table("queue");
    f.client().await.execute(&format!("insert into {table} (name, paused) values ('mail', '1')")).await.unwrap();
    let queues = f.database().operator.queues().await.unwrap();
    assert_eq!(queues[0].paused, Some(Pause::default()));
}

pub(crate) async fn slots_are_set_and_unset<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    assert!(!operator.set_slots("mail", None, "ada").await.unwrap());
    assert!(operator.set_slots("mail", Some(0), "ada").await.unwrap());
    assert!(!operator.set_slots("mail", Some(0), "ada").await.unwrap());
    assert!(operator.set_slots("mail", Some(10_000), "ada").await.unwrap());
    assert!(matches!(operator.set_slots("mail", Some(10_001), "ada").await, Err(StorageError::Config(_))));
    let queues = operator.queues().await.unwrap();
    assert_eq!((queues.len(), queues[0].slots, queues[0].paused.clone()), (1, Some(10_000), None));
    assert!(operator.set_slots("mail", None, "ada").await.unwrap());
    assert!(operator.queues().await.unwrap().is_empty());
    assert_eq!(audited(&f, "ada", "set_slots", "queue mail").await, 3);
}

pub(crate) async fn the_overview_has_each_queue_and_who_serves_it<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    assert!(operator.queue_overview().await.unwrap().is_empty());
    enqueue_all(&f, vec![with(|job| job.queue = "lost".into()), later(HOUR)]).await;
    operator.pause_queue("mail", "ada", None).await.unwrap();
    operator.set_slots("reports", Some(0), "ada").await.unwrap();
    let serving = |queues: &[(&str, usize)]| {
        let slots: Vec<(String, usize)> = queues.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect();
        let queues = slots.iter().map(|(name, _)| name.clone()).collect();
        WorkerInfo { queues, slots, ..info(WorkerId::generate(), HOUR) }
    };
    let (one, other) = (serving(&[("default", 4), ("reports", 2)]), serving(&[("default", 9), ("old", 1)]));
    for worker in [&one, &other] {
        db.storage.register(worker).await.unwrap();
    }
    mortal(db).await;
    assert!(operator.ask_worker(other.id, Asked::Quiet, "ada").await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let seen: Vec<String> = operator
        .queue_overview()
        .await
        .unwrap()
        .iter()
        .map(|queue| {
            let (waiting, slots, paused) = (queue.jobs.waiting(), queue.total_slots, queue.paused.is_some());
            format!("{} {waiting} {slots} {:?} {paused} {}", queue.name, queue.slots, queue.served_by())
        })
        .collect();
    assert_eq!(
        seen,
        [
            "default 1 4 None false 1 worker, 1 quiet",
            "lost 1 0 None false nobody",
            "mail 0 0 None true nobody",
            "old 0 0 None false nobody, 1 quiet",
            "reports 0 0 Some(0) false 1 worker",
        ]
    );
}

pub(crate) async fn of_two_operators_one_pauses<F: Fixture>(f: F) {
    let (one, two) = (f.again().await.operator, f.again().await.operator);
    for round in 0..10 {
        let queue = format!("q{round}");
        let (first, second) = tokio::join!(one.pause_queue(&queue, "ada", None), two.pause_queue(&queue, "bert", None));
        assert!(first.unwrap() ^ second.unwrap());
        let (first, second) = tokio::join!(one.resume_queue(&queue, "ada"), two.resume_queue(&queue, "bert"));
        assert!(first.unwrap() ^ second.unwrap());
    }
    let table = F::table("audit");
    assert_eq!(f.client().await.number(&format!("select count(*) as number from {table}")).await, 20);
}

pub(crate) async fn names_and_reasons_that_cannot_be_stored_are_refused<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    let refused = |answer: Result<bool, StorageError>, part: &str| {
        let text = answer.unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(operator.pause_queue("", "ada", None).await, "queue");
    refused(operator.pause_queue("a\0b", "ada", None).await, "NUL");
    for refused_pattern in
        [operator.pause_queue("tenant-*", "ada", None).await, operator.set_slots("tenant-*", Some(2), "ada").await]
    {
        refused(refused_pattern, "`tenant-*` is not a queue");
    }
    refused(operator.pause_kind(&"k".repeat(201), "ada", None).await, "200 bytes");
    refused(operator.pause_kind("k", "", None).await, "the actor");
    refused(operator.pause_kind("k", "ada", Some("two\nlines")).await, "the reason");
    assert!(operator.kinds().await.unwrap().is_empty() && operator.queues().await.unwrap().is_empty());
    let hostile = "'; drop table jobs.queue; --";
    assert!(operator.pause_queue(hostile, hostile, Some(hostile)).await.unwrap());
    assert_eq!(operator.queues().await.unwrap()[0].name, hostile);
}

pub(crate) async fn a_worker_reads_what_is_set<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    assert_eq!(db.storage.overrides().await.unwrap(), diesel_jobs_core::storage::Overrides::default());
    operator.pause_queue("mail", "ada", None).await.unwrap();
    operator.set_slots("mail", Some(3), "ada").await.unwrap();
    operator.set_slots("sms", Some(0), "ada").await.unwrap();
    operator.pause_kind("a", "ada", None).await.unwrap();
    set(&f, None, JobState::Discarded, Keep::Forever).await;
    set(&f, Some("a"), JobState::Discarded, Keep::For(HOUR)).await;
    let read = db.storage.overrides().await.unwrap();
    assert_eq!(read.paused_queues.iter().collect::<Vec<_>>(), ["mail"]);
    assert_eq!((read.slots["mail"], read.slots["sms"], read.slots.len()), (3, 0, 2));
    assert_eq!(read.paused_kinds.iter().collect::<Vec<_>>(), ["a"]);
    assert_eq!(read.retention.keep("a", JobState::Discarded), Some(Keep::For(HOUR)));
    assert_eq!(read.retention.keep("b", JobState::Discarded), Some(Keep::Forever));
    assert_eq!(read.retention.keep("b", JobState::Completed), None);
}

async fn set<F: Fixture>(f: &F, kind: Option<&str>, state: JobState, keep: Keep) -> bool {
    let setting = RetentionSetting { kind: kind.map(str::to_owned), state, keep };
    f.database().operator.set_retention(&setting, "ada").await.unwrap()
}

pub(crate) async fn retention_is_set_for_a_kind_or_for_all<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    let week = Keep::For(7 * 24 * HOUR);
    assert!(set(&f, Some("a"), JobState::Completed, week).await);
    assert!(!set(&f, Some("a"), JobState::Completed, week).await);
    assert!(set(&f, Some("a"), JobState::Completed, Keep::For(Duration::from_millis(1500))).await);
    assert!(set(&f, None, JobState::Completed, Keep::Nothing).await);
    assert!(set(&f, None, JobState::Cancelled, Keep::Forever).await);
    let all = operator.retention().await.unwrap();
    let all: Vec<_> = all.iter().map(|setting| (setting.kind.as_deref(), setting.state, setting.keep)).collect();
    let short = Keep::For(Duration::from_millis(1500));
    assert_eq!(
        all,
        [
            (None, JobState::Completed, Keep::Nothing),
            (None, JobState::Cancelled, Keep::Forever),
            (Some("a"), JobState::Completed, short)
        ]
    );
    assert!(operator.unset_retention(Some("a"), JobState::Completed, "ada").await.unwrap());
    assert!(!operator.unset_retention(Some("a"), JobState::Completed, "ada").await.unwrap());
    assert_eq!(operator.retention().await.unwrap().len(), 2);
    assert_eq!(audited(&f, "ada", "set_retention", "kind a").await, 2);
    assert_eq!(audited(&f, "ada", "set_retention", "all kinds").await, 2);
    assert_eq!(audited(&f, "ada", "unset_retention", "kind a").await, 1);
    for (state, keep) in [(JobState::Running, Keep::Nothing), (JobState::Completed, Keep::For(Duration::MAX))] {
        let setting = RetentionSetting { kind: None, state, keep };
        assert!(matches!(operator.set_retention(&setting, "ada").await, Err(StorageError::Config(_))));
    }
}

/// In how many hours the ended job is deleted. `None`: never.
async fn kept_hours<F: Fixture>(f: &F, id: diesel_jobs_core::JobId) -> Option<i64> {
    let mut client = f.client().await;
    for hours in 0..2000 {
        client.execute(&F::passed(HOUR)).await.unwrap();
        f.database().storage.prune(10).await.unwrap();
        if f.database().operator.show(id).await.unwrap().is_none() {
            return Some(hours);
        }
        if hours == 30 {
            client.execute(&F::passed(900 * HOUR)).await.unwrap();
        }
    }
    None
}

pub(crate) async fn an_operators_cancel_follows_the_retention<F: Fixture>(f: F) {
    let operator = &f.database().operator;
    set(&f, None, JobState::Cancelled, Keep::For(3 * HOUR + HOUR / 2)).await;
    set(&f, Some("b"), JobState::Cancelled, Keep::For(5 * HOUR + HOUR / 2)).await;
    for (kind, hours) in [("a", 3), ("b", 5)] {
        let id = enqueue(&f, NewJob::raw(kind, "{}")).await;
        assert_eq!(operator.cancel(id).await.unwrap(), diesel_jobs_core::storage::Operated::Done);
        assert_eq!(kept_hours(&f, id).await, Some(hours), "{kind}");
    }
    set(&f, Some("b"), JobState::Cancelled, Keep::Forever).await;
    let id = enqueue(&f, NewJob::raw("b", "{}")).await;
    operator.cancel(id).await.unwrap();
    f.client().await.execute(&F::passed(20_000 * HOUR)).await.unwrap();
    assert_eq!(f.database().storage.prune(10).await.unwrap(), 0);
    assert!(operator.show(id).await.unwrap().is_some());
}

pub(crate) async fn a_rescue_follows_the_retention<F: Fixture>(f: F) {
    let db = f.database();
    set(&f, None, JobState::Discarded, Keep::For(2 * HOUR + HOUR / 2)).await;
    let mortal = mortal(db).await;
    let mut new = job();
    new.max_attempts = 1;
    let id = enqueue(&f, new).await;
    assert_eq!(claim(db, mortal, 1).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    for _ in 0..20 {
        if !db.storage.rescue(POLICY).await.unwrap().discarded.is_empty() {
            break;
        }
    }
    assert_eq!(db.operator.show(id).await.unwrap().unwrap().0.state, JobState::Discarded);
    assert_eq!(kept_hours(&f, id).await, Some(2));
}

pub(crate) async fn a_worker_is_asked_and_learns_it_from_its_heartbeat<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let worker = worker(db).await;
    let mut heartbeat = db.storage.open_heartbeat(worker).await.unwrap();
    assert_eq!(heartbeat.beat(false, HOUR).await.unwrap().unwrap().asked, None);
    assert!(operator.ask_worker(worker, Asked::Quiet, "ada").await.unwrap());
    assert_eq!(heartbeat.beat(false, HOUR).await.unwrap().unwrap().asked, Some(Asked::Quiet));
    assert!(operator.ask_worker(worker, Asked::Stop, "bert").await.unwrap());
    assert!(operator.ask_worker(worker, Asked::Quiet, "ada").await.unwrap(), "it is there, and stops");
    assert_eq!(heartbeat.beat(false, HOUR).await.unwrap().unwrap().asked, Some(Asked::Stop));
    let record = operator.workers().await.unwrap().remove(0);
    assert_eq!((record.asked, record.asked_by.as_deref()), (Some(Asked::Stop), Some("bert")));
    assert!(close(record.asked_at.unwrap(), now(db).await));
    assert!(!operator.ask_worker(WorkerId::generate(), Asked::Stop, "ada").await.unwrap());
    assert_eq!(audited(&f, "ada", "quiet", &format!("worker {worker}")).await, 1);
    assert_eq!(audited(&f, "bert", "stop", &format!("worker {worker}")).await, 1);
}

pub(crate) async fn what_a_worker_runs_is_listed<F: Fixture>(f: F) {
    let (db, operator) = (f.database(), &f.database().operator);
    let id = WorkerId::generate();
    let slots = vec![("default".to_owned(), 16), ("mail".to_owned(), 2)];
    let info = WorkerInfo { version: Some("1.2.3".to_owned()), slots, slots_total: Some(17), ..info(id, HOUR) };
    db.storage.register(&info).await.unwrap();
    let record = operator.workers().await.unwrap().remove(0);
    assert_eq!(record.version.as_deref(), Some("1.2.3"));
    assert_eq!((record.slots["default"], record.slots["mail"], record.slots_total), (16, 2, Some(17)));
    assert!(operator.running(id).await.unwrap().is_empty());
    let (first, second) = (enqueue(&f, job()).await, enqueue(&f, NewJob::raw("b", "{}")).await);
    claim(db, id, 1).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    claim(db, id, 1).await;
    let running = operator.running(id).await.unwrap();
    assert_eq!(running.iter().map(|job| job.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!((running[1].kind.as_str(), running[1].queue.as_str(), running[1].attempt), ("b", "default", 1));
    assert!(close(running[0].claimed_at, now(db).await));
}
