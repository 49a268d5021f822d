//! Rows that another session has locked: finishes and rescues skip them.

use std::time::Duration;

use diesel_jobs_core::storage::{DeclaredSchedule, StoredSchedules};
use diesel_jobs_core::{Finish, Lease};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, PATIENCE, Port as _, run};
use crate::scheduling::declared;

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
            let Lease { job: locked, number, .. } = jobs[1].lease;
            locker.execute(&format!("select from jobs.running where id = {locked} for {lock}")).await.unwrap();
            let batch: Vec<Finish> = jobs.iter().map(|job| Finish::new(job, transition.clone())).collect();
            let mut moved = tokio::time::timeout(PATIENCE, db.storage.finish_all(&batch)).await.unwrap().unwrap();
            moved.sort();
            assert_eq!(moved, [jobs[0].lease.job, jobs[2].lease.job, jobs[3].lease.job]);
            assert_eq!(db.storage.leases(worker, None).await.unwrap().valid, [(locked, number)]);
            locker.commit().await;
            // The row still contains the id of the transaction that had locked it (`xmax`).
            assert!(finish(db, &jobs[1], transition).await);
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
            let rescued = tokio::time::timeout(PATIENCE, db.storage.rescue(POLICY)).await.unwrap().unwrap();
            assert_eq!((rescued.returned, rescued.left_behind), (returned, true));
        }
        locker.commit().await;
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((rescued.returned, rescued.left_behind), (vec![locked], false));
    });
}

/// Only the row of a worker says that it was draining. So it stays as long as one of its jobs is locked.
#[test]
fn a_locked_job_of_a_worker_that_was_draining_is_released_by_a_later_rescue() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, dead) = (f.database(), mortal(f.database()).await);
        enqueue_all(&f, vec![job(); 2]).await;
        let jobs = claim(db, dead, 2).await;
        assert!(db.storage.open_heartbeat(dead).await.unwrap().beat(true, MORTAL).await.unwrap().is_some());
        let mut locker = f.client().await;
        locker.begin().await;
        let locked = jobs[0].lease.job;
        locker.execute(&format!("select from jobs.running where id = {locked} for key share")).await.unwrap();
        let rescued = tokio::time::timeout(PATIENCE, rescue(db, POLICY)).await.unwrap();
        assert_eq!((rescued.released, rescued.left_behind), (vec![jobs[1].lease.job], true));
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((rescued.released, rescued.left_behind), (Vec::new(), true));
        assert_eq!(db.operator.workers().await.unwrap().len(), 1);
        locker.commit().await;
        let rescued = db.storage.rescue(POLICY).await.unwrap();
        assert_eq!((rescued.released, rescued.left_behind), (vec![locked], false));
        let record = record(db, locked).await;
        assert_eq!((record.attempt, record.crashes), (0, 0));
        assert!(db.operator.workers().await.unwrap().is_empty());
    });
}

#[test]
fn a_locked_schedule_holds_up_no_other_and_no_start() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let declare = async |declared: &[DeclaredSchedule]| {
            tokio::time::timeout(PATIENCE, db.storage.schedules(declared)).await.unwrap().unwrap().is_locked
        };
        let tick = async |name: &str| {
            let StoredSchedules { all: stored, now, .. } = db.storage.schedules(&[]).await.unwrap();
            let stored = stored.into_iter().find(|stored| stored.name == name).unwrap();
            tokio::time::timeout(PATIENCE, db.storage.tick(&stored, now, &[job()])).await.unwrap().unwrap()
        };
        assert!(!declare(&[declared("held"), declared("other")]).await);
        let mut locker = f.client().await;
        // The lock of a foreign key (`key share`) blocks nothing.
        for (lock, is_held) in [("key share", false), ("share", true), ("no key update", true), ("update", true)] {
            locker.begin().await;
            locker.execute(&format!("select from jobs.schedule where name = 'held' for {lock}")).await.unwrap();
            assert_eq!((tick("held").await, tick("other").await), (!is_held, true), "{lock}");
            let expression = format!("0 0 {} * * *", lock.len());
            let changed = DeclaredSchedule { expression: expression.clone(), ..declared("held") };
            let new = declared(lock);
            assert_eq!(declare(&[changed.clone(), declared("other"), new]).await, is_held, "{lock}");
            locker.commit().await;
            assert!(!declare(&[changed]).await, "{lock}");
            assert!(tick("held").await && tick(lock).await, "{lock}");
            let stored = db.storage.schedules(&[]).await.unwrap().all;
            assert!(stored.iter().any(|stored| stored.name == "held" && stored.expression == expression));
        }
    });
}

/// The inserts of declarations would wait for each of these rows.
#[test]
fn schedules_in_which_another_session_writes_are_passed_over() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let names = ["one", "two", "three"];
        let all = |hour: usize| {
            let at = |name| DeclaredSchedule { expression: format!("0 0 {hour} * * *"), ..declared(name) };
            names.map(at)
        };
        db.storage.schedules(&all(0)).await.unwrap();
        for (hour, write) in [
            "update jobs.schedule set paused = false",
            "update jobs.schedule set name = name || ' renamed'",
            "delete from jobs.schedule",
        ]
        .into_iter()
        .enumerate()
        {
            let (mut locker, wanted) = (f.client().await, all(hour + 1));
            locker.begin().await;
            locker.execute(write).await.unwrap();
            let [one, two, three] = wanted.clone();
            let new = format!("new_{hour}");
            let found = db.storage.schedules(&[one, two, declared(&new), three]).await.unwrap();
            assert!(found.is_locked && found.refused.is_empty(), "{write}: {:?}", found.refused);
            assert!(found.all.iter().any(|stored| stored.name == new), "{write}");
            locker.rollback().await;
            let found = db.storage.schedules(&wanted).await.unwrap();
            assert!(!found.is_locked && found.refused.is_empty(), "{write}: {:?}", found.refused);
            assert!(wanted.iter().all(|one| found.all.iter().any(|stored| stored.follows(one))), "{write}");
        }
    });
}

#[test]
fn nobody_waits_for_a_schedule_that_is_as_it_is_declared() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        db.storage.schedules(&[declared("held")]).await.unwrap();
        let mut locker = f.client().await;
        locker.begin().await;
        locker.execute("select from jobs.schedule for update").await.unwrap();
        let again = tokio::time::timeout(PATIENCE, db.storage.schedules(&[declared("held")])).await;
        assert!(!again.unwrap().unwrap().is_locked);
    });
}

#[test]
fn a_locked_worker_row_stops_no_claim_and_a_heartbeat_returns_the_time_after_its_wait() {
    run::<Postgres, _>(async |f: Postgres| {
        let (db, worker) = (f.database(), worker(f.database()).await);
        let mut heartbeat = db.storage.open_heartbeat(worker).await.unwrap();
        let mut locker = f.client().await;
        locker.begin().await;
        locker.execute("select from jobs.worker for update").await.unwrap();
        let idle = tokio::time::timeout(PATIENCE, db.storage.set_idle(worker, true)).await.unwrap();
        assert!(idle.unwrap_err().to_string().contains("jobs.worker"));
        let id = enqueue(&f, job()).await;
        assert_eq!(ids(&claim(db, worker, 1).await), [id]);
        let (beat, let_go) = tokio::join!(heartbeat.beat(false, HOUR), async {
            // The heartbeat waits meanwhile. If it is sent later than this, its time is later, too.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = now(db).await;
            locker.commit().await;
            now
        });
        assert!(beat.unwrap().unwrap().at >= let_go, "it is as old as its wait was long");
        db.storage.set_idle(worker, true).await.unwrap();
        // For a worker that was declared dead there is no row, which is no error.
        db.storage.deregister(worker).await.unwrap();
        db.storage.set_idle(worker, true).await.unwrap();
    });
}
