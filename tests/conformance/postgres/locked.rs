//! Rows that another session has locked: finishes and rescues pass over them.

use std::time::Duration;

use jobs_core::Finish;

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, run};

/// What a statement may take that waits for nobody.
const AT_ONCE: Duration = Duration::from_secs(3);

#[test]
fn a_finish_passes_over_locked_rows_and_moves_the_others() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, worker) = (f.database(), worker(f.database()).await);
        for (lock, transition) in
            [("update", DONE), ("key share", DONE), ("update", discard()), ("key share", discard())]
        {
            enqueue_all(&f, vec![job(); 4]).await;
            let jobs = claim(db, worker, 4).await;
            let mut locker = f.client().await;
            locker.begin().await;
            let locked = jobs[1].lease;
            locker.execute(&format!("select from jobs.running where id = {} for {lock}", locked.job)).await.unwrap();
            let batch: Vec<Finish> =
                jobs.iter().map(|job| Finish { lease: job.lease, transition: transition.clone() }).collect();
            let mut moved = tokio::time::timeout(AT_ONCE, db.storage.finish(&batch)).await.unwrap().unwrap();
            moved.sort();
            assert_eq!(moved, [jobs[0].lease.job, jobs[2].lease.job, jobs[3].lease.job]);
            assert_eq!(db.storage.leases(worker, None).await.unwrap(), [(locked.job, locked.number)]);
            locker.commit().await;
            // The row still tells of the lock, which is gone.
            assert!(finish(db, locked, transition).await);
        }
    });
}

#[test]
fn a_rescue_passes_over_locked_rows_and_says_so() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, dead) = (f.database(), mortal(f.database()).await);
        enqueue_all(&f, vec![job(); 2]).await;
        let jobs = claim(db, dead, 2).await;
        let mut locker = f.client().await;
        locker.begin().await;
        let locked = jobs[0].lease.job;
        locker.execute(&format!("select from jobs.running where id = {locked} for update")).await.unwrap();
        for returned in [vec![jobs[1].lease.job], Vec::new()] {
            let rescued = tokio::time::timeout(AT_ONCE, db.storage.rescue(POLICY)).await.unwrap().unwrap();
            assert_eq!((rescued.returned, rescued.left_behind), (returned, true));
        }
        locker.commit().await;
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((rescued.returned, rescued.left_behind), (vec![locked], false));
    });
}
