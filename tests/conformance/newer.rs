//! Rows with a flag that this version does not know belong to a newer program. This version changes none of them, and
//! an operator gets the reply `Newer`.

use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs_core::storage::{Claim, DeclaredSchedule, Operated};
use diesel_jobs_core::{CatchUp, JobId, JobState, Keep, Transition};

use crate::bench::*;
use crate::fixture::Fixture;

/// A flag of a future version.
const FLAG: i32 = 1 << 20;

/// Sets the flag on this job, in any table.
pub(crate) async fn flag<F: Fixture>(f: &F, id: JobId) {
    let mut client = f.client().await;
    let mut moved = 0;
    for table in F::TABLES.iter().filter(|table| ["job", "ready", "running", "finished"].contains(table)) {
        let table = F::table(table);
        client.execute(&format!("update {table} set flags = {FLAG} where id = {id}")).await.unwrap();
        moved +=
            client.number(&format!("select count(*) as number from {table} where flags = {FLAG} and id = {id}")).await;
    }
    assert_eq!(moved, 1);
}

pub(crate) async fn a_claim_leaves_them_alone<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let newer = enqueue_all(&f, vec![with(|job| job.priority = 9), job()]).await;
    for id in &newer {
        flag(&f, *id).await;
    }
    assert_eq!(db.storage.next_due(&wants(worker, &[("default", 9)]), ANY_TIME).await.unwrap(), None);
    assert_eq!(claim(db, worker, 9).await.len(), 0);
    let known = enqueue(&f, job()).await;
    assert_eq!(ids(&claim(db, worker, 9).await), [known]);
    // The same holds for a quarantined job.
    f.client().await.execute(&format!("update {} set crashes = 2", F::table(F::TABLES[0]))).await.unwrap();
    let quarantined = Claim { quarantined_at: 2, ..wants(worker, &[("default", 9)]) };
    assert!(db.storage.claim(&quarantined.for_quarantined()).await.unwrap().pop().is_none());
    assert!(!db.storage.rescue(POLICY).await.unwrap().quarantined_due);
    for id in newer {
        let job = record(db, id).await;
        assert_eq!((job.state, job.attempt, job.flags), (JobState::Available, 0, FLAG));
    }
}

pub(crate) async fn they_keep_their_flags_when_their_worker_moves_them<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (transition, state) in [
        (retry_in(HOUR), JobState::Retrying),
        (Transition::Snooze(HOUR), JobState::Scheduled),
        (DONE, JobState::Completed),
        (discard(), JobState::Discarded),
    ] {
        let job = claimed(&f, worker, job()).await;
        flag(&f, job.lease.job).await;
        assert!(finish(db, &job, transition).await);
        let job = record(db, job.lease.job).await;
        assert_eq!((job.state, job.flags), (state, FLAG));
    }
}

pub(crate) async fn a_rescue_leaves_them_alone<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let jobs = [claimed(&f, dead, job()).await.lease.job, claimed(&f, dead, job()).await.lease.job];
    flag(&f, jobs[0]).await;
    assert_eq!(rescue(db, POLICY).await.returned, [jobs[1]]);
    assert_eq!(db.storage.rescue(POLICY).await.unwrap().returned, []);
    let job = record(db, jobs[0]).await;
    assert_eq!((job.state, job.crashes, job.flags), (JobState::Running, 0, FLAG));
}

pub(crate) async fn a_prune_leaves_them_alone<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut ended = Vec::new();
    for _ in 0..2 {
        let job = claimed(&f, worker, job()).await;
        assert!(finish(db, &job, Transition::Complete(Keep::For(Duration::ZERO))).await);
        ended.push(job.lease.job);
    }
    flag(&f, ended[0]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.storage.prune(10).await.unwrap(), 1);
    assert!(show(db, ended[0]).await.is_some() && show(db, ended[1]).await.is_none());
}

pub(crate) async fn an_operator_is_told_to_use_the_newer_program<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ended = claimed(&f, worker, job()).await;
    assert!(finish(db, &ended, discard()).await);
    let jobs = [
        (ended.lease.job, JobState::Discarded),
        (claimed(&f, worker, job()).await.lease.job, JobState::Running),
        (enqueue(&f, job()).await, JobState::Available),
    ];
    for (id, state) in jobs {
        flag(&f, id).await;
        assert_eq!(db.operator.retry(id).await.unwrap(), Operated::Newer, "{state}");
        assert_eq!(db.operator.cancel(id).await.unwrap(), Operated::Newer, "{state}");
        assert_eq!(record(db, id).await.state, state);
    }
}

pub(crate) async fn a_schedule_with_one_neither_ticks_nor_changes<F: Fixture>(f: F) {
    let db = f.database();
    let declared = |expression: &str| DeclaredSchedule {
        name: "nightly".to_owned(),
        expression: expression.to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::Last,
    };
    db.storage.schedules(&[declared("0 0 2 * * *")]).await.unwrap();
    let schedule = db.storage.schedules(&[]).await.unwrap().all.remove(0);
    let table = F::table("schedule");
    let mut client = f.client().await;
    client.execute(&format!("update {table} set flags = {FLAG}")).await.unwrap();
    assert_eq!(db.storage.schedules(&[]).await.unwrap().all.len(), 0);
    assert!(!db.storage.tick(&schedule, schedule.last_tick + TimeDelta::days(1), &[job()]).await.unwrap());
    db.storage.schedules(&[declared("0 0 3 * * *")]).await.unwrap();
    let unchanged = format!("select count(*) as number from {table} where expression = '0 0 2 * * *'");
    assert_eq!(client.number(&unchanged).await, 1);
}
