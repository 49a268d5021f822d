//! What operators see and do.

use std::time::Duration;

use diesel_jobs_core::storage::{JobFilter, Operated};
use diesel_jobs_core::{FailureKind, JobId, JobState, NewJob};

use crate::bench::*;
use crate::fixture::Fixture;

/// Returns one job in each situation, with its state.
async fn every_state<F: Fixture>(f: &F) -> Vec<(&'static str, JobId, JobState)> {
    let db = f.database();
    let worker = worker(db).await;
    let mut jobs = Vec::new();
    for (name, transition, end) in [
        ("retrying", retry_in(HOUR), JobState::Retrying),
        ("completed", DONE, JobState::Completed),
        ("cancelled", cancel(), JobState::Cancelled),
        ("discarded", discard(), JobState::Discarded),
    ] {
        let job = claimed(f, worker, job()).await;
        assert!(finish(db, &job, transition).await);
        jobs.push((name, job.lease.job, end));
    }
    jobs.push(("running", claimed(f, worker, job()).await.lease.job, JobState::Running));
    jobs.push(("available", enqueue(f, job()).await, JobState::Available));
    jobs.push(("scheduled", enqueue(f, later(HOUR)).await, JobState::Scheduled));
    jobs
}

pub(crate) async fn show_knows_every_job_in_every_state<F: Fixture>(f: F) {
    let db = f.database();
    for (name, id, state) in every_state(&f).await {
        let (record, failures) = show(db, id).await.unwrap();
        assert_eq!((record.id, record.state), (id, state), "{name}");
        let failed = matches!(name, "retrying" | "cancelled" | "discarded");
        assert_eq!(failures.len(), usize::from(failed), "{name}");
        assert_eq!(record.last_error, failures.last().map(|failure| failure.message.clone()), "{name}");
        assert_eq!(record.finished_at.is_some(), state.is_finished(), "{name}");
    }
    assert!(show(db, JobId(i64::MAX)).await.is_none());
    assert!(show(db, JobId(-1)).await.is_none());
}

pub(crate) async fn list_filters_and_is_newest_first<F: Fixture>(f: F) {
    let db = f.database();
    let jobs = every_state(&f).await;
    let mail = enqueue(&f, with(|job| (job.queue, job.kind) = ("mail".into(), "b".into()))).await;
    let list = async |filter: JobFilter, limit: usize| -> Vec<JobId> {
        db.operator.list_all(&filter, limit).await.unwrap().iter().map(|job| job.id).collect()
    };
    let all = JobFilter::default();
    let mut expected: Vec<JobId> = jobs.iter().map(|job| job.1).chain([mail]).collect();
    expected.reverse();
    assert_eq!(list(all.clone(), 100).await, expected);
    assert_eq!(list(all.clone(), 3).await, expected[..3]);
    assert_eq!(list(all.clone(), 0).await, []);
    assert_eq!(list(JobFilter::of_queue("mail"), 100).await, [mail]);
    assert_eq!(list(JobFilter::of_kind("b"), 100).await, [mail]);
    assert_eq!(list(JobFilter { kinds: vec!["b".into()], ..JobFilter::of_queue("default") }, 100).await, []);
    for state in JobState::ALL {
        let expected: Vec<JobId> = expected
            .iter()
            .copied()
            .filter(|id| {
                *id == mail && state == JobState::Available || jobs.iter().any(|job| job.1 == *id && job.2 == state)
            })
            .collect();
        assert_eq!(list(JobFilter::of_state(state), 100).await, expected, "{state}");
    }
}

pub(crate) async fn retry_in_every_state<F: Fixture>(f: F) {
    let db = f.database();
    let jobs = every_state(&f).await;
    for (name, id, state) in &jobs {
        let expected = match name {
            &("running" | "completed") => Operated::Refused(*state),
            _ => Operated::Done,
        };
        assert_eq!(db.operator.retry(*id).await.unwrap(), expected, "{name}");
        let record = record(db, *id).await;
        if expected == Operated::Done {
            assert_eq!((record.state, record.finished_at, record.worker), (JobState::Available, None, None), "{name}");
            assert!(close(record.run_at, now(db).await), "{name}");
        } else {
            assert_eq!(record.state, *state, "{name}");
        }
    }
    assert_eq!(db.operator.retry(JobId(i64::MAX)).await.unwrap(), Operated::NotFound);
    let worker = worker(db).await;
    assert_eq!(claim(db, worker, 100).await.len(), 5);
}

pub(crate) async fn retry_leaves_at_least_one_attempt<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let used_up = claimed(&f, worker, with(|job| job.max_attempts = 1)).await;
    assert!(finish(db, &used_up, discard()).await);
    let fatal = claimed(&f, worker, with(|job| job.max_attempts = 9)).await;
    assert!(finish(db, &fatal, discard()).await);
    for (id, max_attempts) in [(used_up.lease.job, 2), (fatal.lease.job, 9)] {
        assert_eq!(db.operator.retry(id).await.unwrap(), Operated::Done);
        let job = record(db, id).await;
        assert_eq!((job.attempt, job.max_attempts, failures(db, id).await.len()), (1, max_attempts, 1));
    }
    assert_eq!(claim(db, worker, 2).await.iter().map(|job| job.attempt).collect::<Vec<_>>(), [2, 2]);
    // A retry by an operator resets the crashes.
    let dead = mortal(db).await;
    let crashed = claimed(&f, dead, job()).await.lease.job;
    rescue(db, diesel_jobs_core::storage::RescuePolicy { max_crashes: 1, ..POLICY }).await;
    assert_eq!(record(db, crashed).await.crashes, 1);
    assert_eq!(db.operator.retry(crashed).await.unwrap(), Operated::Done);
    assert_eq!(record(db, crashed).await.crashes, 0);
}

pub(crate) async fn cancel_in_every_state<F: Fixture>(f: F) {
    let db = f.database();
    for (name, id, state) in every_state(&f).await {
        let before = failures(db, id).await.len();
        let expected = if state.is_finished() { Operated::Refused(state) } else { Operated::Done };
        assert_eq!(db.operator.cancel(id).await.unwrap(), expected, "{name}");
        let (record, failures) = show(db, id).await.unwrap();
        if expected == Operated::Done {
            assert_eq!(record.state, JobState::Cancelled, "{name}");
            assert!(close(record.finished_at.unwrap(), now(db).await), "{name}");
            assert_eq!(failures.len(), before + 1, "{name}");
            assert_eq!(failures.last().unwrap().kind, FailureKind::Cancelled, "{name}");
        } else {
            assert_eq!((record.state, failures.len()), (state, before), "{name}");
        }
    }
    assert_eq!(db.operator.cancel(JobId(i64::MAX)).await.unwrap(), Operated::NotFound);
    assert_eq!(claim(db, worker(db).await, 100).await.len(), 0);
}

pub(crate) async fn many_jobs_at_once_are_answered_for_one_by_one<F: Fixture>(f: F) {
    let db = f.database();
    let jobs = every_state(&f).await;
    let (unknown, twice) = (JobId(i64::MAX), jobs[5].1);
    // More than one statement can take, so that the second occurrence of one job is in another statement.
    let many = std::iter::repeat_n(unknown, 1_500);
    let asked: Vec<JobId> = jobs.iter().rev().map(|job| job.1).chain(many.clone()).chain([twice]).collect();
    let shown = db.operator.show_many(&asked).await.unwrap();
    let shown: Vec<_> = shown.iter().map(|(job, failures)| (job.id, job.state, failures.len())).collect();
    let failed = [JobState::Retrying, JobState::Cancelled, JobState::Discarded];
    let expected: Vec<_> =
        jobs.iter().rev().map(|(_, id, state)| (*id, *state, usize::from(failed.contains(state)))).collect();
    assert_eq!(shown, expected);

    let answers = |refuses: fn(JobState) -> bool| {
        let answer = |state: JobState| if refuses(state) { Operated::Refused(state) } else { Operated::Done };
        let answers = jobs.iter().rev().map(move |job| answer(job.2));
        let unknown = many.clone().map(|_| Operated::NotFound);
        answers.chain(unknown).chain([answer(jobs[5].2)]).collect::<Vec<_>>()
    };
    assert_eq!(db.operator.cancel_many(&asked).await.unwrap(), answers(JobState::is_finished));
    assert_eq!(db.operator.cancel_many(&[]).await.unwrap(), []);
    for (name, id, state) in &jobs {
        let after = if state.is_finished() { *state } else { JobState::Cancelled };
        assert_eq!(record(db, *id).await.state, after, "{name}");
    }
    let completed = |answer: &Operated| *answer == Operated::Refused(JobState::Completed);
    let retried = db.operator.retry_many(&asked).await.unwrap();
    assert_eq!(retried.iter().filter(|answer| **answer == Operated::Done).count(), 7, "{retried:?}");
    assert_eq!(retried.iter().filter(|answer| completed(answer)).count(), 1, "{retried:?}");
    assert_eq!(claim(db, worker(db).await, 100).await.len(), 6);
}

pub(crate) async fn stats_count_each_state<F: Fixture>(f: F) {
    let db = f.database();
    assert_eq!(db.operator.stats().await.unwrap().kinds, []);
    every_state(&f).await;
    enqueue(&f, with(|job| job.queue = "mail".into())).await;
    enqueue(&f, NewJob::raw("b", "{}")).await;
    f.pass(MINUTE).await;
    let stats = db.operator.stats().await.unwrap().kinds;
    let names: Vec<_> = stats.iter().map(|row| (&*row.queue, &*row.kind)).collect();
    assert_eq!(names, [("default", "a"), ("default", "b"), ("mail", "a")]);
    let row = &stats[0];
    assert_eq!((row.available, row.scheduled, row.retrying, row.running), (1, 1, 1, 1));
    assert_eq!((row.completed, row.cancelled, row.discarded), (1, 1, 1));
    assert!((60.0..3600.0).contains(&row.oldest_wait_seconds.unwrap()), "{:?}", row.oldest_wait_seconds);
    assert_eq!((stats[2].available, stats[2].scheduled, stats[2].running), (1, 0, 0));
    let worker = worker(db).await;
    let jobs = claim(db, worker, 10).await;
    assert_eq!(db.operator.stats().await.unwrap().kinds[0].oldest_wait_seconds, None, "{}", jobs.len());
}

pub(crate) async fn workers_are_listed_with_their_pulse<F: Fixture>(f: F) {
    let db = f.database();
    let (alive, dead) = (worker(db).await, mortal(db).await);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let workers = db.operator.workers().await.unwrap();
    let of = |id| workers.iter().find(|worker| worker.id == id).unwrap();
    assert_eq!((workers.len(), of(alive).alive, of(dead).alive), (2, true, false));
    assert_eq!((&*of(alive).host, of(alive).pid, &*of(alive).queues), ("bench", 4711, &["default".to_owned()][..]));
    assert!(close(of(alive).started_at, now(db).await));
    db.storage.open_heartbeat(alive).await.unwrap().beat(false, HOUR).await.unwrap();
    let beaten = db.operator.workers().await.unwrap();
    let beaten = beaten.iter().find(|worker| worker.id == alive).unwrap();
    assert!(beaten.heartbeat_at > of(alive).heartbeat_at && beaten.started_at == of(alive).started_at);
    db.storage.deregister(alive).await.unwrap();
    assert_eq!(db.operator.workers().await.unwrap().len(), 1);
}
