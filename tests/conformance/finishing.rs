//! What each transition does with a job at the end of its attempt.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::{Operated, WorkerInfo};
use diesel_jobs_core::{FailureKind, Finish, JobState, Keep, Transition, WorkerId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bench::*;
use crate::fixture::{Fixture, Inspect, PATIENCE, Port};

pub(crate) async fn complete_keeps_the_job_as_long_as_it_is_told<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut kept = Vec::new();
    for keep in [Keep::For(Duration::ZERO), Keep::For(HOUR), Keep::Forever] {
        let job = claimed(&f, worker, job()).await;
        assert!(finish(db, &job, Transition::Complete(keep)).await);
        let record = record(db, job.lease.job).await;
        assert_eq!((record.state, record.attempt, record.worker), (JobState::Completed, 1, Some(worker)));
        assert!(close(record.finished_at.unwrap(), now(db).await));
        kept.push(job.lease.job);
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.storage().prune(100).await.unwrap(), 1);
    assert!(show(db, kept[0]).await.is_none());
    for id in &kept[1..] {
        assert_eq!(state(db, *id).await, JobState::Completed);
    }
}

pub(crate) async fn complete_with_nothing_kept_deletes_the_job_and_its_failures<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = claimed(&f, worker, job()).await;
    assert!(finish(db, &first, retry_in(Duration::ZERO)).await);
    let second = claim(db, worker, 1).await.remove(0);
    assert!(finish(db, &second, Transition::Complete(Keep::Nothing)).await);
    assert!(show(db, second.lease.job).await.is_none());
    let left = format!("select count(*) as number from {}", F::table("job_error"));
    assert_eq!(f.client().await.number(&left).await, 0);
    // The id is not used again, because an old lease must never fit another job.
    assert!(enqueue(&f, job()).await > second.lease.job);
}

/// Each failed attempt is stored with its worker and its start.
pub(crate) async fn a_failure_names_the_worker_and_the_start_of_its_attempt<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = claimed(&f, worker, job()).await;
    assert!(finish(db, &first, retry_in(Duration::ZERO)).await);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let dead = mortal(db).await;
    let second = claim(db, dead, 1).await.remove(0);
    rescue(db, POLICY).await;
    let third = claim(db, worker, 1).await.remove(0);
    assert_eq!(db.operator.cancel(third.lease.job).await.unwrap(), Operated::Done);
    let recorded: Vec<_> =
        failures(db, first.lease.job).await.iter().map(|e| (e.attempt, e.worker, e.started_at)).collect();
    let attempts = [(1, worker, first.claimed_at), (2, dead, second.claimed_at), (3, worker, third.claimed_at)];
    assert_eq!(recorded, attempts.map(|(attempt, worker, at)| (attempt, Some(worker), Some(at))));
    let waiting = enqueue(&f, job()).await;
    assert_eq!(db.operator.cancel(waiting).await.unwrap(), Operated::Done);
    let recorded = failures(db, waiting).await;
    assert_eq!((recorded[0].attempt, recorded[0].worker, recorded[0].started_at), (0, None, None));
}

pub(crate) async fn retry_waits_its_delay_and_records_the_failure<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    assert!(finish(db, &job, retry_in(HOUR)).await);
    let (record, failures) = show(db, job.lease.job).await.unwrap();
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Retrying, 1, 0));
    assert_eq!((record.worker, record.claimed_at, record.finished_at), (None, None, None));
    assert!(close(record.run_at, now(db).await + HOUR));
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (failures[0].attempt, failures[0].kind, &*failures[0].message),
        (1, FailureKind::Error, "it did not work")
    );
    assert!(close(failures[0].at, now(db).await));
    assert_eq!(claim(db, worker, 1).await.len(), 0);
}

pub(crate) async fn snooze_waits_and_gives_the_attempt_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, with(|job| job.max_attempts = 1)).await;
    assert!(finish(db, &job, Transition::Snooze(HOUR)).await);
    let record = record(db, job.lease.job).await;
    assert_eq!((record.state, record.attempt), (JobState::Scheduled, 0));
    assert!(close(record.run_at, now(db).await + HOUR));
    assert_eq!(failures(db, job.lease.job).await.len(), 0);
    for _ in 0..3 {
        assert_eq!(db.operator.retry(job.lease.job).await.unwrap(), Operated::Done);
        let again = claim(db, worker, 1).await.remove(0);
        assert_eq!((again.attempt, again.max_attempts), (1, 1));
        assert!(finish(db, &again, Transition::Snooze(HOUR)).await);
    }
}

pub(crate) async fn release_goes_back_to_its_old_place_and_gives_the_attempt_back<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = claimed(&f, worker, job()).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = enqueue(&f, job()).await;
    assert!(finish(db, &first, Transition::Release).await);
    let record = record(db, first.lease.job).await;
    assert_eq!((record.state, record.attempt, record.run_at), (JobState::Available, 0, first.run_at));
    assert_eq!(failures(db, first.lease.job).await.len(), 0);
    let again = claim(db, worker, 2).await;
    assert_eq!(ids(&again), [first.lease.job, second]);
    assert_eq!(again[0].attempt, 1);
}

pub(crate) async fn cancel_and_discard_end_the_job_and_record_why<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (transition, end, kind, why) in [
        (cancel(), JobState::Cancelled, FailureKind::Cancelled, "not wanted any more"),
        (discard(), JobState::Discarded, FailureKind::Error, "it never works"),
    ] {
        let job = claimed(&f, worker, job()).await;
        assert!(finish(db, &job, transition).await);
        let (record, failures) = show(db, job.lease.job).await.unwrap();
        assert_eq!((record.state, record.attempt, record.worker), (end, 1, Some(worker)));
        assert!(close(record.finished_at.unwrap(), now(db).await));
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].attempt, failures[0].kind, &*failures[0].message), (1, kind, why));
    }
    assert_eq!(claim(db, worker, 10).await.len(), 0);
}

pub(crate) async fn a_batch_moves_all_its_jobs<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 300]).await;
    let jobs = claim(db, worker, 300).await;
    let transitions = [DONE, retry_in(HOUR), Transition::Snooze(HOUR), Transition::Release, cancel(), discard()];
    // In reverse, because no storage may depend on the order of a batch.
    let batch: Vec<Finish> = jobs
        .iter()
        .rev()
        .zip(transitions.iter().cycle())
        .map(|(job, transition)| Finish::new(job, transition.clone()))
        .collect();
    let mut moved = db.storage.finish_all(&batch).await.unwrap();
    moved.sort();
    let mut expected = ids(&jobs);
    expected.sort();
    assert_eq!(moved, expected);
    let stats = db.operator.stats().await.unwrap().kinds.remove(0);
    assert_eq!((stats.completed, stats.scheduled, stats.retrying, stats.available), (50, 50, 50, 50));
    assert_eq!((stats.cancelled, stats.discarded, stats.running), (50, 50, 0));
    assert_eq!(db.storage.finish_all(&[]).await.unwrap(), []);
}

pub(crate) async fn failures_with_nul_are_recorded<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    let failure = failure("before\0after \u{feff}'\"");
    assert!(finish(db, &job, Transition::Retry { delay: HOUR, failure }).await);
    assert_eq!(failures(db, job.lease.job).await[0].message, "before\u{2400}after \u{feff}'\"");
}

pub(crate) async fn only_the_newest_failures_are_kept<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let id = enqueue(&f, with(|job| job.max_attempts = 1000)).await;
    let other = claimed(&f, worker, with(|job| job.priority = 1)).await;
    assert!(finish(db, &other, retry_in(HOUR)).await);
    for _ in 0..60 {
        let job = claim(db, worker, 1).await.remove(0);
        assert!(finish(db, &job, retry_in(Duration::ZERO)).await);
    }
    let attempts: Vec<u16> = failures(db, id).await.iter().map(|failure| failure.attempt).collect();
    assert_eq!(attempts, (11..=60).collect::<Vec<u16>>());
    assert_eq!(failures(db, other.lease.job).await.len(), 1);
}

pub(crate) async fn endless_delays_are_only_long<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let endless = Duration::MAX;
    for transition in [
        Transition::Snooze(endless),
        retry_in(endless),
        Transition::Complete(Keep::For(endless)),
        Transition::Discard { failure: failure("x"), keep: Keep::For(endless) },
    ] {
        let job = claimed(&f, worker, job()).await;
        assert!(finish(db, &job, transition).await);
        let record = record(db, job.lease.job).await;
        assert!(record.state.is_finished() || record.run_at > now(db).await + 1000 * 24 * HOUR, "{}", record.run_at);
    }
    assert_eq!(db.storage().prune(100).await.unwrap(), 0);
    assert!(
        db.storage().next_due(&wants(worker, &[("default", 1)]), ANY_TIME).await.unwrap().unwrap() > 1000 * 24 * HOUR
    );
}

pub(crate) async fn a_listener_hears_of_an_enqueue<F: Fixture>(f: F) {
    hears(f, "default", "default").await;
}

pub(crate) async fn a_listener_of_a_pattern_hears_of_queues_that_fit<F: Fixture>(f: F) {
    hears(f, "tenant-*", "tenant-7").await;
}

/// An idle worker that serves this, by name or by pattern, hears of jobs in the queue.
async fn hears<F: Fixture>(f: F, serves: &str, queue: &'static str) {
    let db = f.database();
    let worker = WorkerId::generate();
    let info = WorkerInfo { queues: vec![serves.to_owned()], ..WorkerInfo::new(worker, HOUR) };
    db.storage.register(&info).await.unwrap();
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let listening = tokio::spawn({
        let (db, wake, stop) = (f.again().await, wake.clone(), stop.clone());
        async move { db.storage.listen(&info.queues, wake, Arc::default(), stop).await }
    });
    db.storage.set_idle(worker, true).await.unwrap();
    let job = || with(|job| job.queue = queue.into());
    // The first wake-up only means that the listener has started. From then on each notification must arrive.
    let heard = async {
        loop {
            enqueue(&f, job()).await;
            if tokio::time::timeout(Duration::from_millis(500), wake.notified()).await.is_ok() {
                break;
            }
        }
        // Waits until no wake-up of the start or of earlier enqueues is left.
        while tokio::time::timeout(Duration::from_millis(300), wake.notified()).await.is_ok() {}
        enqueue(&f, job()).await;
        wake.notified().await;
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the listener hears of the enqueue");
    stop.cancel();
    tokio::time::timeout(PATIENCE, listening).await.expect("the listener stops").unwrap();
}
