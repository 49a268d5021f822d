//! Which jobs a claim returns, and in which order.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use diesel_jobs_core::storage::{Claim, Waiting};
use diesel_jobs_core::{ClaimedJob, JobId, JobState, RunAt};

use crate::bench::*;
use crate::fixture::{Fixture, Inspect, Port};
use crate::limiting::limited;

pub(crate) async fn higher_priorities_first_then_run_at_then_id<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let base = Utc::now();
    let of = |priority: i16, seconds: i64| {
        with(|job| {
            job.priority = priority;
            job.run_at = RunAt::Exactly(base + TimeDelta::seconds(seconds));
        })
    };
    let given = enqueue_all(
        &f,
        vec![of(0, 40), of(0, 20), of(5, 60), of(-3, 0), of(0, 20), of(5, 0), of(i16::MAX, 0), of(i16::MIN, 0)],
    )
    .await;
    f.pass(MINUTE).await;
    let best: Vec<JobId> = [6, 5, 2, 1, 4, 0, 3, 7].map(|index: usize| given[index]).to_vec();
    // The order is the same for single jobs, pairs and all others.
    let mut got = ids(&claim(db, worker, 1).await);
    got.extend(ids(&claim(db, worker, 2).await));
    got.extend(ids(&claim(db, worker, 100).await));
    assert_eq!(got, best);
}

pub(crate) async fn no_more_than_wanted_per_queue<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let into = |queue: &'static str, many: usize| vec![with(|job| job.queue = queue.into()); many];
    enqueue_all(&f, [into("mail", 10), into("pdf", 10), into("default", 1)].concat()).await;
    let jobs =
        db.storage().claim(&wants(worker, &[("mail", 3), ("pdf", 4), ("default", 5), ("empty", 6)])).await.unwrap();
    let from = |queue: &str| jobs.iter().filter(|job| job.queue == queue).count();
    assert_eq!((from("mail"), from("pdf"), from("default"), jobs.len()), (3, 4, 1, 8));
}

/// Jobs of queues that a claim has not reached are found by the next one.
pub(crate) async fn a_limit_of_all_queues_takes_the_first_ones_first<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let into = |queue: &'static str, many: usize| vec![with(|job| job.queue = queue.into()); many];
    enqueue_all(&f, [into("mail", 4), into("pdf", 4), into("default", 4)].concat()).await;
    let claimed = async |most, wanted: &[(&str, usize)]| {
        let jobs = db.storage().claim(&Claim { most: Some(most), ..wants(worker, wanted) }).await.unwrap();
        let mut from: Vec<String> = jobs.into_iter().map(|job| job.queue).collect();
        from.sort_unstable();
        from
    };
    let all = [("pdf", 3), ("empty", 3), ("default", 3), ("mail", 3)];
    assert_eq!(claimed(4, &all).await, ["default", "pdf", "pdf", "pdf"]);
    assert_eq!(claimed(2, &all[2..]).await, ["default", "default"]);
    assert_eq!(claimed(100, &all).await, ["default", "mail", "mail", "mail", "pdf"]);
    assert_eq!(claimed(100, &all).await, ["mail"]);
}

pub(crate) async fn queues_are_found_by_their_waiting_jobs<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let into = |queue: &'static str| with(|job| job.queue = queue.into());
    let found = async |waiting| {
        let mut queues = db.storage().waiting_queues(waiting).await.unwrap();
        queues.sort_unstable();
        queues
    };
    assert!(found(ANY_TIME).await.is_empty());
    let in_an_hour = with(|job| {
        job.queue = "later".into();
        job.run_at = RunAt::After(HOUR);
    });
    enqueue_all(&f, vec![into("runs"), into("z"), into("a b"), into("a b"), in_an_hour]).await;
    assert_eq!(db.storage().claim(&wants(worker, &[("runs", 1)])).await.unwrap().len(), 1);
    assert_eq!(found(ANY_TIME).await, ["a b", "later", "z"]);
    let mut held = limited("k");
    held.queue = "held".into();
    enqueue(&f, held).await;
    assert!(found(Waiting::Held).await.contains(&"held".to_owned()));
}

pub(crate) async fn other_queues_are_left_alone<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let id = enqueue(&f, with(|job| job.queue = "other".into())).await;
    assert_eq!(claim(db, worker, 10).await.len(), 0);
    assert_eq!(state(db, id).await, JobState::Available);
}

pub(crate) async fn scheduled_jobs_are_not_early<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let id = enqueue(&f, later(3 * HOUR)).await;
    for left in [3 * HOUR, HOUR] {
        assert_eq!(claim(db, worker, 10).await.len(), 0);
        let wait = db.storage().next_due(&wants(worker, &[("default", 1)]), ANY_TIME).await.unwrap();
        let wait = wait.expect("a job waits");
        assert!(wait <= left && wait > left - 30 * MINUTE, "{wait:?}");
        f.pass(if left == HOUR { HOUR } else { left - HOUR }).await;
    }
    let jobs = claim(db, worker, 10).await;
    assert_eq!(ids(&jobs), [id]);
    assert!(jobs[0].claimed_at >= jobs[0].run_at, "{} {}", jobs[0].claimed_at, jobs[0].run_at);
    assert!(close(jobs[0].run_at, jobs[0].enqueued_at + TimeDelta::hours(3)), "{:?}", jobs[0]);
}

pub(crate) async fn future_jobs_of_a_high_priority_do_not_hide_due_ones_of_a_low<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let tomorrow = with(|job| {
        job.priority = 100;
        job.run_at = RunAt::At(Utc::now() + TimeDelta::days(1));
    });
    enqueue_all(&f, vec![tomorrow; 2000]).await;
    let low = enqueue(&f, with(|job| job.priority = -100)).await;
    assert_eq!(db.storage().next_due(&wants(worker, &[("default", 1)]), ANY_TIME).await.unwrap(), Some(Duration::ZERO));
    assert_eq!(ids(&claim(db, worker, 10).await), [low]);
}

pub(crate) async fn next_due_is_the_wait_for_the_earliest_job_that_fits<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let due = |queues: &'static [(&'static str, usize)]| async move {
        db.storage().next_due(&wants(worker, queues), ANY_TIME).await.unwrap()
    };
    assert_eq!(due(&[("default", 1)]).await, None);
    enqueue(&f, later(HOUR)).await;
    enqueue(&f, with(|job| (job.kind, job.run_at) = ("unknown".into(), RunAt::Now))).await;
    enqueue(&f, with(|job| (job.queue, job.run_at) = ("other".into(), RunAt::After(MINUTE)))).await;
    enqueue(&f, with(|job| (job.priority, job.run_at) = (9, RunAt::After(2 * HOUR)))).await;
    let near = |wait: Option<Duration>, expected: Duration| {
        let wait = wait.expect("a job waits");
        assert!(wait <= expected && wait > expected - MINUTE / 2, "{wait:?} {expected:?}");
    };
    near(due(&[("default", 1)]).await, HOUR);
    near(due(&[("default", 1), ("other", 1)]).await, MINUTE);
    enqueue(&f, job()).await;
    assert_eq!(due(&[("default", 1)]).await, Some(Duration::ZERO));
    assert_eq!(due(&[("empty", 1)]).await, None);
}

pub(crate) async fn jobs_of_unknown_kinds_are_not_claimed_and_block_no_job<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let unknown = enqueue_all(&f, vec![with(|job| (job.kind, job.priority) = ("new".into(), 50)); 200]).await;
    let known = enqueue(&f, job()).await;
    assert_eq!(ids(&claim(db, worker, 10).await), [known]);
    let job = record(db, unknown[0]).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 0));
}

pub(crate) async fn a_worker_that_is_not_registered_gets_nothing<F: Port>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    assert_eq!(claim(db, diesel_jobs_core::WorkerId::generate(), 10).await.len(), 0);
    let worker = worker(db).await;
    db.storage().deregister(worker).await.unwrap();
    assert_eq!(claim(db, worker, 10).await.len(), 0);
    assert_eq!((state(db, id).await, record(db, id).await.attempt), (JobState::Available, 0));
}

pub(crate) async fn a_paused_queue_gives_nothing<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue(&f, job()).await;
    let queue = F::table("queue");
    let mut client = f.client().await;
    client.execute(&format!("insert into {queue} (name, paused) values ('default', true)")).await.unwrap();
    assert_eq!(claim(db, worker, 10).await.len(), 0);
    assert_eq!(db.storage.next_due(&wants(worker, &[("default", 1)]), ANY_TIME).await.unwrap(), None);
    client.execute(&format!("update {queue} set paused = false")).await.unwrap();
    assert_eq!(claim(db, worker, 10).await.len(), 1);
}

pub(crate) async fn many_claimers_get_each_job_once_and_never_more_than_wanted<F: Fixture>(f: F) {
    const JOBS: usize = 600;
    const SLOTS: usize = 7;
    let given =
        enqueue_all(&f, (0..JOBS).map(|index| with(|job| job.priority = i16::try_from(index % 4).unwrap())).collect())
            .await;
    let mut claimers = Vec::new();
    for _ in 0..16 {
        let db = f.again().await;
        let worker = worker(&db).await;
        claimers.push(tokio::spawn(async move {
            let mut got = Vec::new();
            let mut dry = 0;
            // A claim skips rows that another claimer has locked. So one empty result does not mean that no job is
            // left.
            while dry < 20 {
                let jobs = claim(&db, worker, SLOTS).await;
                assert!(jobs.len() <= SLOTS, "{}", jobs.len());
                dry = if jobs.is_empty() { dry + 1 } else { 0 };
                got.extend(ids(&jobs));
            }
            got
        }));
    }
    let mut got = Vec::new();
    for claimer in claimers {
        got.extend(claimer.await.unwrap());
    }
    assert_eq!(got.len(), JOBS, "each job once");
    assert_eq!(BTreeSet::from_iter(got), BTreeSet::from_iter(given));
}

pub(crate) async fn a_claim_counts_the_attempt_and_the_lease<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = claimed(&f, worker, with(|job| job.max_attempts = 5)).await;
    assert_eq!((first.attempt, first.max_attempts, &*first.kind, &*first.queue), (1, 5, "a", "default"));
    assert_eq!(first.lease.worker, worker);
    let job = record(db, first.lease.job).await;
    assert_eq!((job.state, job.attempt, job.worker), (JobState::Running, 1, Some(worker)));
    assert_eq!(job.claimed_at, Some(first.claimed_at));
    assert!(finish(db, &first, retry_in(Duration::ZERO)).await);
    let second = claim(db, worker, 1).await.remove(0);
    assert_eq!((second.attempt, second.lease.job), (2, first.lease.job));
    assert!(second.lease.number > first.lease.number);
}

pub(crate) async fn prefetching_brings_more_jobs_than_slots<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let given = enqueue_all(&f, vec![job(); 10]).await;
    assert_eq!(ids(&claim_and_prefetch(db, worker, 2, 4).await), given[..6]);
    assert_eq!(ids(&claim_and_prefetch(db, worker, 0, 100).await), given[6..]);
}

/// A crash of the worker counts for all its jobs, started or not. A prefetched job must not be discarded because of
/// that. So a job that one more crash would discard is claimed only for a free slot.
pub(crate) async fn prefetching_ends_at_the_first_job_that_one_more_crash_would_end<F: Fixture>(f: F) {
    let db = f.database();
    let dying = mortal(db).await;
    let crashed = claimed(&f, dying, job()).await.lease.job;
    rescue(db, POLICY).await;
    let worker = worker(db).await;
    let last_attempt = enqueue(&f, with(|job| job.max_attempts = 1)).await;
    let rest = enqueue_all(&f, vec![job(); 3]).await;
    assert_eq!(ids(&claim_and_prefetch(db, worker, 0, 10).await), [], "the crashed one comes first");
    assert_eq!(ids(&claim_and_prefetch(db, worker, 1, 10).await), [crashed], "the last attempt is the next");
    assert_eq!(ids(&claim_and_prefetch(db, worker, 2, 1).await), [last_attempt, rest[0]]);
    let others = claim_and_prefetch(db, worker, 0, 10).await;
    assert_eq!(ids(&others), rest[1..]);
    let first = |job: &ClaimedJob| (job.attempt, job.lease.number) == (1, 1);
    assert!(others.iter().all(first), "what was not prefetched kept its attempt: {others:?}");
}
