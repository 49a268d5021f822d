//! Ended jobs are deleted after their retention.

use std::time::Duration;

use diesel_jobs_core::{Finish, JobState, Keep, Transition};

use crate::bench::*;
use crate::fixture::{Fixture, Inspect, Port};

const EXPIRED: Keep = Keep::For(Duration::ZERO);

pub(crate) async fn only_expired_jobs_are_deleted<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut gone = Vec::new();
    let mut stay = vec![enqueue(&f, later(HOUR)).await, claimed(&f, worker, job()).await.lease.job];
    for keep in [EXPIRED, Keep::For(HOUR), Keep::Forever] {
        for transition in [
            Transition::Complete(keep),
            Transition::Cancel { reason: failure("x"), keep },
            Transition::Discard { failure: failure("x"), keep },
        ] {
            let job = claimed(&f, worker, job()).await;
            assert!(finish(db, &job, transition).await);
            if keep == EXPIRED { &mut gone } else { &mut stay }.push(job.lease.job);
        }
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.storage().prune(1000).await.unwrap(), 3);
    assert_eq!(db.storage().prune(1000).await.unwrap(), 0);
    for id in gone {
        assert!(show(db, id).await.is_none());
    }
    for id in stay {
        assert!(show(db, id).await.is_some());
    }
}

pub(crate) async fn a_prune_deletes_no_more_than_its_limit_and_failures_go_too<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 25]).await;
    let batch: Vec<Finish> = claim(db, worker, 25)
        .await
        .iter()
        .map(|job| Finish::new(job, Transition::Discard { failure: failure("x"), keep: EXPIRED }))
        .collect();
    db.storage.finish_all(&batch).await.unwrap();
    let kept = claimed(&f, worker, job()).await;
    assert!(finish(db, &kept, discard()).await);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut client = f.client().await;
    let failures = format!("select count(*) as number from {}", F::table("job_error"));
    for (pruned, left) in [(10, 16), (10, 6), (5, 1), (0, 1)] {
        assert_eq!(db.storage.prune(10).await.unwrap(), pruned);
        assert_eq!(client.number(&failures).await, left);
    }
    assert_eq!(state(db, kept.lease.job).await, JobState::Discarded);
}
