//! Workers that were draining when they died: somebody killed them because they took too long, and their jobs have not
//! caused that.

use std::time::Duration;

use diesel_jobs_core::storage::{MOST_KILLS, Rescued};
use diesel_jobs_core::{FailureKind, JobId, JobState, Transition, WorkerId};

use crate::bench::*;
use crate::fixture::{Fixture, Inspect, Port};

/// The worker says that it drains.
async fn drains(db: &impl Inspect, worker: WorkerId, lease: Duration) {
    let mut heartbeat = db.storage().open_heartbeat(worker).await.unwrap();
    assert!(heartbeat.beat(true, lease).await.unwrap().is_some());
}

/// Claims this many jobs, and kills the worker while it drains.
async fn killed(db: &impl Inspect, jobs: usize) -> Vec<JobId> {
    let dead = mortal(db).await;
    let claimed = ids(&claim(db, dead, jobs).await);
    assert_eq!(claimed.len(), jobs);
    drains(db, dead, MORTAL).await;
    claimed
}

pub(crate) async fn the_jobs_of_a_worker_that_was_draining_are_released<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let once = with(|job| job.max_attempts = 1);
    enqueue_all(&f, vec![job(), once, with(|job| job.priority = 7)]).await;
    let jobs = claim(db, dead, 3).await;
    drains(db, dead, MORTAL).await;
    let worker_of_list = db.operator.workers().await.unwrap().remove(0);
    assert!(worker_of_list.draining_at.is_some_and(|at| at >= worker_of_list.started_at));
    let mut rescued = rescue(db, POLICY).await;
    rescued.released.sort();
    let mut all = ids(&jobs);
    all.sort();
    assert_eq!(rescued, Rescued { released: all, ..Rescued::default() });
    for job in &jobs {
        let (record, failures) = show(db, job.lease.job).await.unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Available, 0, 0));
        assert_eq!((record.run_at, record.priority), (job.run_at, job.priority), "it keeps its place");
        assert_eq!((record.worker, record.claimed_at), (None, None));
        assert_eq!((failures.len(), failures[0].attempt, failures[0].kind), (1, 1, FailureKind::Killed));
        let message = &failures[0].message;
        for part in [&dead.to_string(), "4711", "bench", "killed while it was stopping", "no attempt"] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert!(db.operator.workers().await.unwrap().is_empty());
    assert_eq!(db.storage().rescue(POLICY).await.unwrap(), Rescued::default());
    let again = claim(db, worker(db).await, 3).await;
    assert_eq!(ids(&again), ids(&jobs), "in the same order");
    assert!(again.iter().all(|job| job.attempt == 1 && job.lease.number == 2));
}

pub(crate) async fn a_worker_of_many_that_dies_counts_a_crash_unless_it_was_draining<F: Port>(f: F) {
    let db = f.database();
    enqueue_all(&f, vec![job(); 3]).await;
    let (alive, dead, drained) = (worker(db).await, mortal(db).await, mortal(db).await);
    let [theirs, crashed, stopped] = [alive, dead, drained].map(|who| claim(db, who, 1));
    let (theirs, crashed, stopped) = (ids(&theirs.await), ids(&crashed.await), ids(&stopped.await));
    for (who, lease) in [(alive, HOUR), (drained, MORTAL)] {
        drains(db, who, lease).await;
    }
    let mut rescued = Rescued::default();
    while rescued.returned.is_empty() || rescued.released.is_empty() {
        let more = rescue(db, POLICY).await;
        rescued.returned.extend(more.returned);
        rescued.released.extend(more.released);
    }
    assert_eq!((rescued.returned, rescued.released), (crashed, stopped));
    assert_eq!(state(db, theirs[0]).await, JobState::Running, "its worker lives");
}

/// A job may make its supervisor stop and kill its workers. It must not do that for ever.
pub(crate) async fn too_many_kills_of_a_job_count_as_crashes<F: Fixture>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    for copies in [MOST_KILLS - 2, 0] {
        assert_eq!(killed(db, 1).await, [id]);
        assert_eq!(rescue(db, POLICY).await.released, [id]);
        assert_eq!(record(db, id).await.attempt, 0);
        // The kills between the first one and the last one that is free.
        let columns = "job_id, attempt, at, kind, message";
        let table = F::table("job_error");
        let copy = format!("insert into {table} ({columns}) select {columns} from {table} where job_id = {id} limit 1");
        for _ in 0..copies {
            f.client().await.execute(&copy).await.unwrap();
        }
    }
    for crash in 1..=3 {
        assert_eq!(killed(db, 1).await, [id]);
        let rescued = rescue(db, POLICY).await;
        let (record, failures) = show(db, id).await.unwrap();
        assert_eq!((record.attempt, record.crashes), (crash, crash));
        let newest = failures.last().unwrap();
        assert_eq!(newest.kind, FailureKind::Crash);
        assert!(newest.message.contains("while the worker was stopping"), "{}", newest.message);
        match crash {
            3 => assert_eq!((record.state, rescued.discarded), (JobState::Discarded, vec![id])),
            _ => assert_eq!((record.state, rescued.returned), (JobState::Available, vec![id])),
        }
    }
}

pub(crate) async fn a_job_that_crashes_its_worker_counts_a_crash_after_kills_too<F: Port>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    for crashes in 1..=3 {
        assert_eq!(killed(db, 1).await, [id]);
        assert_eq!(rescue(db, POLICY).await.released, [id]);
        assert_eq!(record(db, id).await.crashes, crashes - 1, "a kill neither counts nor forgives a crash");
        assert_eq!(ids(&claim(db, mortal(db).await, 1).await), [id]);
        rescue(db, POLICY).await;
        assert_eq!(record(db, id).await.crashes, crashes);
    }
    assert_eq!(state(db, id).await, JobState::Discarded);
}

pub(crate) async fn a_killed_job_keeps_its_permit_its_key_and_its_turn<F: Fixture>(f: F) {
    use diesel_jobs_core::{Limit, Sequence, Unique};
    let db = f.database();
    let limited = || job().rule(Limit::new("limit", 1).key("x")).unwrap();
    let next = || job().rule(Sequence::new("sequence").key("x")).unwrap();
    let unique = || job().unique(Unique::new()).unwrap();
    let jobs = enqueue_all(&f, vec![limited(), limited(), next(), next(), unique()]).await;
    while db.storage().admit(true).await.unwrap().admitted > 0 {}
    let first = [jobs[0], jobs[2], jobs[4]];
    let mut claimed = killed(db, 3).await;
    claimed.sort();
    assert_eq!(claimed, first);
    let mut released = rescue(db, POLICY).await.released;
    released.sort();
    assert_eq!(released, first);
    while db.storage().admit(true).await.unwrap().admitted > 0 {}
    assert_eq!(enqueue(&f, unique()).await, jobs[4], "it still has its key");
    let mut again = claim(db, worker(db).await, 5).await;
    again.sort_by_key(|job| job.lease.job);
    assert_eq!(ids(&again), first, "no other job of the keys");
    for job in again {
        assert_eq!(job.attempt, 1);
        assert!(finish(db, &job, DONE).await);
    }
    while db.storage().admit(true).await.unwrap().admitted > 0 {}
    let mut others = ids(&claim(db, worker(db).await, 5).await);
    others.sort();
    assert_eq!(others, [jobs[1], jobs[3]]);
}

pub(crate) async fn a_kill_is_no_failure_and_is_in_the_history_of_its_job<F: Fixture>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    killed(db, 1).await;
    rescue(db, POLICY).await;
    assert!(db.operator.failures(10).await.unwrap().groups.is_empty());
    let failed = claim(db, worker(db).await, 1).await.remove(0);
    assert!(finish(db, &failed, retry_in(Duration::ZERO)).await);
    let (_, failures) = show(db, id).await.unwrap();
    let kinds: Vec<_> = failures.iter().map(|failure| (failure.attempt, failure.kind)).collect();
    assert_eq!(kinds, [(1, FailureKind::Killed), (1, FailureKind::Error)]);
    assert_eq!(db.operator.failures(10).await.unwrap().groups.len(), 1);
}

pub(crate) async fn a_worker_that_comes_back_after_its_rescue_writes_nothing<F: Port>(f: F) {
    let db = f.database();
    let zombie = mortal(db).await;
    let mut heartbeat = db.storage().open_heartbeat(zombie).await.unwrap();
    let old = claimed(&f, zombie, job()).await;
    assert!(heartbeat.beat(true, MORTAL).await.unwrap().is_some());
    rescue(db, POLICY).await;
    assert!(heartbeat.beat(true, MORTAL).await.unwrap().is_none());
    let new = claim(db, worker(db).await, 1).await.remove(0);
    assert_eq!((new.lease.job, new.attempt, new.lease.number), (old.lease.job, old.attempt, old.lease.number + 1));
    for transition in [Transition::Release, DONE] {
        assert!(!finish(db, &old, transition).await, "the attempt is the same, and the lease is not");
    }
    assert!(finish(db, &new, DONE).await);
}
