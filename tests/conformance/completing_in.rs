//! A handler that finishes its job in a transaction of its own (`complete_in`).

use diesel_jobs_core::{JobState, Transition};
use diesel_jobs_storage::CompleteError;

use crate::bench::*;
use crate::fixture::Fixture;

pub(crate) async fn a_commit_completes_the_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let job = claimed(&f, worker, job()).await;
        let ctx = context(&job);
        client.begin().await;
        client.execute(&format!("insert into effect (name) values ('{name}')")).await.unwrap();
        client.complete_in(&ctx).await.unwrap();
        assert!(ctx.is_completed_in(), "{name}");
        assert_eq!(state(db, job.lease.job).await, JobState::Running, "{name}: not before the commit");
        client.commit().await;
        let record = record(db, job.lease.job).await;
        assert_eq!((record.state, record.attempt, effects(&f, name).await), (JobState::Completed, 1, 1), "{name}");
        assert!(!finish(db, &job, DONE).await, "{name}");
    }
    assert_eq!(db.storage.prune(100).await.unwrap(), 0, "they are kept as long as completed jobs are");
}

pub(crate) async fn a_rollback_leaves_the_job_running<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let job = claimed(&f, worker, job()).await;
        client.begin().await;
        client.execute(&format!("insert into effect (name) values ('{name}')")).await.unwrap();
        client.complete_in(&context(&job)).await.unwrap();
        client.rollback().await;
        assert_eq!((state(db, job.lease.job).await, effects(&f, name).await), (JobState::Running, 0), "{name}");
        assert!(finish(db, &job, DONE).await, "{name}");
    }
}

pub(crate) async fn outside_of_a_transaction_it_is_refused<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let job = claimed(&f, worker, job()).await;
        let ctx = context(&job);
        let error = client.complete_in(&ctx).await.unwrap_err();
        assert!(matches!(error, CompleteError::NoTransaction), "{name}: {error}");
        assert!(!ctx.is_completed_in(), "{name}");
        assert_eq!(state(db, job.lease.job).await, JobState::Running, "{name}");
    }
}

pub(crate) async fn a_lost_lease_is_refused<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let old = claimed(&f, worker, job()).await;
        assert!(finish(db, &old, Transition::Release).await);
        let new = claim(db, worker, 1).await.remove(0);
        let ctx = context(&old);
        client.begin().await;
        client.execute(&format!("insert into effect (name) values ('{name}')")).await.unwrap();
        let error = client.complete_in(&ctx).await.unwrap_err();
        assert!(matches!(error, CompleteError::LeaseLost(lease) if lease == old.lease), "{name}: {error}");
        assert!(!ctx.is_completed_in(), "{name}");
        client.rollback().await;
        assert_eq!((state(db, old.lease.job).await, effects(&f, name).await), (JobState::Running, 0), "{name}");
        assert!(finish(db, &new, DONE).await, "{name}");
    }
}
