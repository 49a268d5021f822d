//! `why`: each reason for which a job does not run, and the end of that reason.

use std::time::Duration;

use diesel_jobs_core::storage::{Asked, WorkerInfo};
use diesel_jobs_core::{Failure, FailureKind, JobId, Keep, Reason, RunAt, Transition, WorkerId};
use diesel_jobs_storage::Database;

use crate::bench::{
    DONE, HOUR, claimed, discard, enqueue, enqueue_all, finish, info, job, later, mortal, retry_in, wants, with, worker,
};
use crate::fixture::Fixture;

async fn reasons(db: &Database, id: JobId) -> Vec<Reason> {
    let why = db.operator.why(id).await.unwrap();
    assert!(why.reasons.iter().all(|one| !one.text.is_empty()), "{why:?}");
    why.reasons.into_iter().map(|one| one.reason).collect()
}

/// A worker that serves the queue `default` with this many slots, and knows these kinds.
async fn serving(db: &Database, slots: usize, kinds: &[&str]) -> WorkerId {
    let id = WorkerId::generate();
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let info = WorkerInfo { slots: vec![("default".to_owned(), slots)], kinds, ..info(id, HOUR) };
    db.storage.register(&info).await.unwrap();
    id
}

pub(crate) async fn a_job_that_is_not_there_may_be_gone_or_not_be_there_yet<F: Fixture>(f: F) {
    let db = f.database();
    assert_eq!(reasons(db, JobId(7)).await, [Reason::NoSuchJob { highest: None }]);
    let id = enqueue(&f, job()).await;
    assert_eq!(reasons(db, JobId(id.0 + 1)).await, [Reason::NoSuchJob { highest: Some(id) }]);
    let text = |why: diesel_jobs_core::Why| why.reasons[0].text.clone();
    assert!(text(db.operator.why(JobId(id.0 + 1)).await.unwrap()).contains("no later one"));
    assert!(text(db.operator.why(JobId(id.0 - 1)).await.unwrap()).contains("it was deleted"));
}

pub(crate) async fn a_job_that_has_ended_or_runs_says_so<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let done = claimed(&f, me, job()).await;
    finish(db, &done, DONE).await;
    assert!(
        matches!(&reasons(db, done.lease.job).await[..], [Reason::Ended { error: None, by: Some(by), .. }] if by.contains(&me.to_string()))
    );
    let failed = claimed(&f, me, job()).await;
    finish(db, &failed, discard()).await;
    assert!(
        matches!(&reasons(db, failed.lease.job).await[..], [Reason::Ended { error: Some(error), .. }] if error == "it never works")
    );
    let running = claimed(&f, me, job()).await.lease.job;
    assert!(matches!(
        &reasons(db, running).await[..],
        [Reason::Running { alive: true, since: Some(_), worker: Some(_), .. }]
    ));
    let dead = claimed(&f, mortal(db).await, job()).await.lease.job;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(matches!(&reasons(db, dead).await[..], [Reason::Running { alive: false, .. }]));
}

pub(crate) async fn a_job_that_waits_for_its_time_says_until_when<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let scheduled = enqueue(&f, later(HOUR)).await;
    assert!(matches!(&reasons(db, scheduled).await[..], [Reason::Scheduled { .. }]));
    let advice = db.operator.why(scheduled).await.unwrap().reasons.remove(0).advice;
    assert_eq!(advice, format!("`worker run-now {scheduled}` makes it due now"));
    let retrying = claimed(&f, me, job()).await;
    finish(db, &retrying, retry_in(HOUR)).await;
    assert!(
        matches!(&reasons(db, retrying.lease.job).await[..], [Reason::Retrying { error: Some(error), .. }] if error == "it did not work")
    );
    let snoozed = claimed(&f, me, job()).await;
    finish(db, &snoozed, Transition::Snooze(HOUR)).await;
    assert!(matches!(&reasons(db, snoozed.lease.job).await[..], [Reason::Scheduled { .. }]));
}

pub(crate) async fn what_operators_have_stopped_says_who_did_it<F: Fixture>(f: F) {
    let db = f.database();
    worker(db).await;
    let id = enqueue(&f, job()).await;
    assert_eq!(reasons(db, id).await, [Reason::Due]);
    db.operator.pause_queue("default", "ana", Some("the bank is closed")).await.unwrap();
    db.operator.pause_kind("a", "bo", None).await.unwrap();
    db.operator.freeze("cy", "restore").await.unwrap();
    let found = reasons(db, id).await;
    let [Reason::Frozen { freeze }, Reason::QueuePaused { pause: queue }, Reason::KindPaused { pause: kind }] =
        &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((freeze.by.as_str(), queue.by.as_deref(), kind.by.as_deref()), ("cy", Some("ana"), Some("bo")));
    assert_eq!(queue.reason.as_deref(), Some("the bank is closed"));
    // In JSON, what an operator has written stands beside the name of the reason, and not in its place.
    let json = serde_json::to_value(db.operator.why(id).await.unwrap()).unwrap();
    assert_eq!(
        (&json["reasons"][1]["reason"], &json["reasons"][1]["pause"]["reason"]),
        (&"queue_paused".into(), &"the bank is closed".into())
    );
    db.operator.resume_queue("default", "ana").await.unwrap();
    db.operator.resume_kind("a", "bo").await.unwrap();
    db.operator.thaw("cy").await.unwrap();
    assert_eq!(reasons(db, id).await, [Reason::Due]);
}

pub(crate) async fn a_misspelt_queue_or_kind_says_which_was_meant<F: Fixture>(f: F) {
    let db = f.database();
    serving(db, 1, &["a", "send_receipt"]).await;
    let why = async |id: JobId| {
        let mut reasons = db.operator.why(id).await.unwrap().reasons;
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        reasons.remove(0)
    };
    let queue = enqueue(&f, with(|job| job.queue = "defualt".into())).await;
    let found = why(queue).await;
    assert_eq!(found.reason, Reason::NoWorker { alive: 1, quiet: 0, near: Some("default".to_owned()) });
    assert!(
        found.advice.starts_with(&format!("if `default` was meant: `worker move {queue} --to default`")),
        "{found:?}"
    );
    let kind = enqueue(&f, with(|job| job.kind = "send_reciept".into())).await;
    let found = why(kind).await;
    assert_eq!(found.reason, Reason::UnknownKind { workers: 1, near: Some("send_receipt".to_owned()) });
    assert!(found.advice.starts_with(&format!("if `send_receipt` was meant: `worker cancel {kind}`")), "{found:?}");
}

pub(crate) async fn a_discarded_job_says_why_it_had_no_further_attempt<F: Fixture>(f: F) {
    let db = f.database();
    let me = worker(db).await;
    let ended = async |attempts: u16, kind: FailureKind| {
        let claimed = claimed(&f, me, with(|job| job.max_attempts = attempts)).await;
        let failure = Failure::new(kind, "it does not fit");
        finish(db, &claimed, Transition::Discard { failure, keep: Keep::For(HOUR) }).await;
        let why = db.operator.why(claimed.lease.job).await.unwrap().reasons.remove(0);
        (why.text, why.advice)
    };
    for (attempts, kind, words) in [
        (1, FailureKind::Error, " after its only attempt: it does not fit"),
        (25, FailureKind::Error, " after attempt 1 of 25, without another one: it does not fit"),
        (
            25,
            FailureKind::Undecodable,
            " after 1 of 25 attempts, because its arguments cannot be read: it does not fit",
        ),
        (25, FailureKind::Crash, " after attempt 1 of 25: it does not fit"),
    ] {
        let (text, advice) = ended(attempts, kind).await;
        assert!(text.ends_with(words), "{text}");
        assert_eq!(advice.contains("`worker enqueue a ARGS`"), kind == FailureKind::Undecodable, "{advice}");
    }
    let waits = claimed(&f, me, job()).await;
    let failure = Failure::new(FailureKind::Undecodable, "it does not fit");
    finish(db, &waits, Transition::Retry { delay: HOUR, failure }).await;
    let advice = db.operator.why(waits.lease.job).await.unwrap().reasons.remove(0).advice;
    assert!(advice.contains(&format!("`worker cancel {}`, and enqueue", waits.lease.job)), "{advice}");
}

pub(crate) async fn a_job_that_no_worker_can_run_says_which_is_missing<F: Fixture>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    assert_eq!(reasons(db, id).await, [Reason::NoWorker { alive: 0, quiet: 0, near: None }]);
    let first = serving(db, 1, &["b"]).await;
    assert_eq!(reasons(db, id).await, [Reason::UnknownKind { workers: 1, near: None }]);
    let elsewhere = enqueue(&f, with(|job| job.queue = "mail".into())).await;
    assert_eq!(reasons(db, elsewhere).await, [Reason::NoWorker { alive: 1, quiet: 0, near: None }]);
    let second = serving(db, 1, &["a"]).await;
    assert_eq!(reasons(db, id).await, [Reason::Due]);
    db.storage.deregister(first).await.unwrap();
    assert!(db.operator.ask_worker(second, Asked::Quiet, "ada").await.unwrap());
    assert_eq!(reasons(db, id).await, [Reason::NoWorker { alive: 1, quiet: 1, near: None }]);
    let why = db.operator.why(id).await.unwrap();
    assert!(
        why.reasons[0].text.starts_with("1 live worker serves queue `default`, and drains or was asked to be quiet"),
        "{why:?}"
    );
}

pub(crate) async fn a_job_in_a_line_says_what_comes_first<F: Fixture>(f: F) {
    let db = f.database();
    let me = serving(db, 1, &["a"]).await;
    let busy = claimed(&f, me, job()).await;
    let first = enqueue(&f, job()).await;
    let found = reasons(db, first).await;
    assert!(
        matches!(&found[..], [Reason::SlotsBusy { slots: 1, running }] if running[0].id == busy.lease.job),
        "{found:?}"
    );
    finish(db, &busy, Transition::Complete(Keep::Nothing)).await;
    assert_eq!(reasons(db, first).await, [Reason::Due]);
    db.operator.set_slots("default", Some(0), "ada").await.unwrap();
    assert_eq!(reasons(db, first).await, [Reason::SlotsBusy { slots: 0, running: Vec::new() }]);
    let why = db.operator.why(first).await.unwrap();
    assert_eq!(why.reasons[0].text, "queue `default` has no slots: an operator has set 0 for each worker");
    db.operator.set_slots("default", None, "ada").await.unwrap();

    enqueue_all(&f, vec![with(|job| job.priority = 5); 3]).await;
    enqueue_all(&f, vec![with(|job| (job.priority, job.run_at) = (5, RunAt::After(HOUR))); 3]).await;
    enqueue_all(&f, vec![with(|job| job.queue = "mail".into()); 3]).await;
    let last = enqueue(&f, job()).await;
    assert_eq!(reasons(db, first).await, [Reason::Behind { jobs: 3, more: false }]);
    assert_eq!(reasons(db, last).await, [Reason::Behind { jobs: 4, more: false }]);
    enqueue_all(&f, vec![with(|job| job.priority = 6); 1500]).await;
    assert_eq!(reasons(db, last).await, [Reason::Behind { jobs: 1000, more: true }]);
}

pub(crate) async fn a_worker_that_runs_all_it_may_in_other_queues_says_so<F: Fixture>(f: F) {
    let db = f.database();
    let me = WorkerId::generate();
    let slots = vec![("default".to_owned(), 16), ("mail".to_owned(), 16)];
    let queues = vec!["default".to_owned(), "mail".to_owned()];
    db.storage.register(&WorkerInfo { queues, slots, slots_total: Some(2), ..info(me, HOUR) }).await.unwrap();
    let id = enqueue(&f, job()).await;
    assert_eq!(reasons(db, id).await, [Reason::Due]);
    let mut running = Vec::new();
    for _ in 0..2 {
        enqueue(&f, with(|job| job.queue = "mail".into())).await;
        running.extend(db.storage.claim(&wants(me, &[("mail", 1)])).await.unwrap());
    }
    assert_eq!(reasons(db, id).await, [Reason::WorkersBusy { slots: 2, workers: 1 }]);
    db.operator.set_slots("default", Some(0), "ada").await.unwrap();
    assert!(matches!(reasons(db, id).await[..], [Reason::SlotsBusy { slots: 0, .. }]));
    db.operator.set_slots("default", None, "ada").await.unwrap();
    // One that has no such limit would run it.
    let other = serving(db, 1, &["a"]).await;
    assert_eq!(reasons(db, id).await, [Reason::Due]);
    db.storage.deregister(other).await.unwrap();
    finish(db, &running.pop().unwrap(), DONE).await;
    assert_eq!(reasons(db, id).await, [Reason::Due]);
}

pub(crate) async fn a_quarantined_or_newer_job_says_so<F: Fixture>(f: F) {
    let db = f.database();
    worker(db).await;
    let id = enqueue(&f, job()).await;
    let waiting = if F::TABLES.contains(&"ready") { F::table("ready") } else { F::table("job") };
    f.client().await.execute(&format!("update {waiting} set crashes = 2 where id = {id}")).await.unwrap();
    assert_eq!(reasons(db, id).await, [Reason::Quarantined { crashes: 2 }]);
    f.client()
        .await
        .execute(&format!("update {waiting} set crashes = 0, flags = 1 << 20 where id = {id}"))
        .await
        .unwrap();
    assert_eq!(reasons(db, id).await, [Reason::NewerVersion]);
}
