//! The rescue: what happens to the jobs of workers that died.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::{
    Claim, Crashed, KILLED_TOO_OFTEN, MOST_KILLS, RUNS_ALONE, RescuePolicy, Rescued, Rescuer, Wanted,
};
use diesel_jobs_core::{ClaimedJob, FailureKind, JobId, JobState, NewJob, Transition, WorkerId};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::examining::{found, none};
use crate::fixture::{Fixture, Inspect, Port};
use crate::on_full::{put_off, refused, refusing};

pub(crate) async fn a_dead_workers_jobs_wait_again_with_a_crash_counted<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    enqueue_all(&f, vec![job(); 3]).await;
    let jobs = claim(db, dead, 3).await;
    let mut rescued = rescue(db, POLICY).await;
    rescued.returned.sort();
    assert_eq!(rescued, Rescued { returned: ids(&jobs), ..Rescued::default() });
    for job in &jobs {
        let (record, failures) = show(db, job.lease.job).await.unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Available, 1, 1));
        assert_eq!((record.run_at, record.worker, record.claimed_at), (job.run_at, None, None));
        assert_eq!((failures.len(), failures[0].attempt, failures[0].kind), (1, 1, FailureKind::Crash));
        let message = &failures[0].message;
        assert!(
            message.contains(&dead.to_string()) && message.contains("4711") && message.contains("bench"),
            "{message}"
        );
    }
    assert!(db.operator.workers().await.unwrap().is_empty());
    assert_eq!(db.storage().rescue(POLICY).await.unwrap(), Rescued::default());
    let again = claim(db, worker(db).await, 3).await;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [2, 2, 2]);
}

/// Checks that a rescue frees nothing and returns `held_off`. If a rescue finds its lock taken, it leaves the work to
/// the next, so it is repeated.
async fn holds_off(db: &impl Inspect, policy: RescuePolicy) {
    for _ in 0..200 {
        let rescued = db.storage().rescue(policy).await.unwrap();
        assert!(rescued.returned.is_empty() && rescued.discarded.is_empty(), "{rescued:?}");
        if rescued.held_off {
            return;
        }
    }
    panic!("the rescuer does not notice");
}

pub(crate) async fn a_rescuer_whose_own_row_is_too_old_declares_no_worker_dead<F: Port>(f: F) {
    let db = f.database();
    let (rescuer, dead) = (worker(db).await, worker(db).await);
    let lost = claimed(&f, dead, job()).await;
    let mut heartbeat = db.storage().open_heartbeat(rescuer).await.unwrap();
    let beat = heartbeat.beat(false, HOUR).await.unwrap().unwrap().at;
    let policy = |beat| {
        let rescuer = Rescuer { worker: rescuer, beat, age: Duration::from_secs(60) };
        RescuePolicy { rescuer: Some(rescuer), ..POLICY }
    };
    // The clock steps, and both workers look dead.
    f.pass(3 * HOUR).await;
    holds_off(db, policy(beat)).await;
    // The same if the rescuer expects its row to be that old.
    let stepped = beat - chrono::TimeDelta::hours(3);
    holds_off(db, policy(stepped)).await;
    assert_eq!(record(db, lost.lease.job).await.state, JobState::Running);
    let beat = heartbeat.beat(false, HOUR).await.unwrap().unwrap().at;
    assert_eq!(rescue(db, policy(beat)).await.returned, [lost.lease.job]);
}

pub(crate) async fn a_live_workers_jobs_are_left_alone<F: Port>(f: F) {
    let db = f.database();
    let (alive, dead) = (worker(db).await, mortal(db).await);
    enqueue_all(&f, vec![job(); 2]).await;
    let theirs = claim(db, alive, 1).await.remove(0);
    let lost = claim(db, dead, 1).await.remove(0);
    assert_eq!(rescue(db, POLICY).await.returned, [lost.lease.job]);
    let record = record(db, theirs.lease.job).await;
    assert_eq!((record.state, record.crashes), (JobState::Running, 0));
    assert!(finish(db, &theirs, DONE).await);
}

pub(crate) async fn a_heartbeat_keeps_a_worker_alive<F: Port>(f: F) {
    let db = f.database();
    let worker = worker_for(db, 4 * HOUR).await;
    let mut heartbeat = db.storage().open_heartbeat(worker).await.unwrap();
    let job = claimed(&f, worker, job()).await;
    for _ in 0..3 {
        f.pass(3 * HOUR).await;
        assert_eq!(db.storage().rescue(POLICY).await.unwrap(), Rescued::default());
        assert!(heartbeat.beat(false, 4 * HOUR).await.unwrap().is_some());
    }
    // Without heartbeats it is treated as dead.
    f.pass(4 * HOUR).await;
    assert_eq!(rescue(db, POLICY).await.returned, [job.lease.job]);
}

/// So that its jobs are not rescued although its next heartbeat comes late, and are soon after it has claimed again.
pub(crate) async fn a_heartbeat_says_how_long_its_worker_counts_as_alive<F: Port>(f: F) {
    let db = f.database();
    let worker = worker_for(db, HOUR).await;
    let mut heartbeat = db.storage().open_heartbeat(worker).await.unwrap();
    let job = claimed(&f, worker, job()).await;
    assert!(heartbeat.beat(false, 5 * HOUR).await.unwrap().is_some());
    f.pass(4 * HOUR).await;
    assert_eq!(db.storage().rescue(POLICY).await.unwrap(), Rescued::default());
    assert!(heartbeat.beat(false, HOUR).await.unwrap().is_some());
    f.pass(2 * HOUR).await;
    assert_eq!(rescue(db, POLICY).await.returned, [job.lease.job]);
}

pub(crate) async fn a_job_that_crashed_too_often_is_discarded<F: Port>(f: F) {
    let db = f.database();
    let id = enqueue(&f, job()).await;
    for crash in 1..=3 {
        let dead = mortal(db).await;
        assert_eq!(ids(&claim(db, dead, 1).await), [id]);
        let rescued = rescue(db, POLICY).await;
        let (record, failures) = show(db, id).await.unwrap();
        assert_eq!((record.crashes, failures.len()), (crash, usize::from(crash)));
        match crash {
            3 => assert_eq!((record.state, rescued.discarded), (JobState::Discarded, vec![id])),
            _ => assert_eq!((record.state, rescued.returned), (JobState::Available, vec![id])),
        }
    }
    let (record, failures) = show(db, id).await.unwrap();
    assert!(close(record.finished_at.unwrap(), now(db).await));
    assert!(failures[2].message.contains("discarded"), "{}", failures[2].message);
    assert_eq!(db.storage().prune(10).await.unwrap(), 0, "it is kept for a look");
}

pub(crate) async fn a_job_without_attempts_left_is_discarded<F: Port>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let job = claimed(&f, dead, with(|job| job.max_attempts = 1)).await;
    let policy = RescuePolicy { max_crashes: 100, ..POLICY };
    assert_eq!(rescue(db, policy).await, Rescued { discarded: vec![job.lease.job], ..Rescued::default() });
    assert_eq!(state(db, job.lease.job).await, JobState::Discarded);
}

/// It is not known which of the jobs caused the crash.
pub(crate) async fn of_the_jobs_that_died_together_none_is_discarded_for_it<F: Port>(f: F) {
    let db = f.database();
    let jobs = enqueue_all(&f, vec![job(); 2]).await;
    for crashes in [1, 2, 2, 2] {
        assert_eq!(claim(db, mortal(db).await, 2).await.len(), 2);
        let rescued = rescue(db, POLICY).await;
        assert_eq!((rescued.returned.len(), rescued.discarded.len(), rescued.quarantined_due), (2, 0, crashes == 2));
        for id in &jobs {
            assert_eq!(record(db, *id).await.crashes, crashes);
        }
    }
    let (_, failures) = show(db, jobs[0]).await.unwrap();
    assert!(failures[3].message.contains("runs alone"), "{}", failures[3].message);
    assert!(db.storage().rescue(POLICY).await.unwrap().quarantined_due, "they still wait");
    // A job that was alone is discarded.
    assert_eq!(ids(&claim(db, mortal(db).await, 1).await), [jobs[0]]);
    assert_eq!(rescue(db, POLICY).await.discarded, [jobs[0]]);
}

/// All combinations of what the decision depends on. PostgreSQL decides in the statement of the rescue, and SQLite
/// calls [`RescuePolicy::decide`].
fn deaths() -> Vec<Crashed> {
    let mut deaths = Vec::new();
    for (attempt, max_attempts) in [(1, 1), (1, 2), (2, 2)] {
        for crashes in 0..=3 {
            for kills in [None, Some(0), Some(MOST_KILLS - 1), Some(MOST_KILLS)] {
                let death = |alone| Crashed { attempt, max_attempts, crashes, alone, kills };
                deaths.extend([death(true), death(false)]);
            }
        }
    }
    deaths
}

/// Claims a job for a worker of its own, and changes it so that it dies like this.
async fn dying<F: Fixture>(f: &F, death: Crashed) -> JobId {
    let (db, mut client) = (f.database(), f.client().await);
    let worker = worker(db).await;
    let id = enqueue(f, with(|job| job.max_attempts = death.max_attempts)).await;
    if !death.alone {
        enqueue(f, job()).await;
    }
    let claimed = claim(db, worker, 2).await;
    assert_eq!(claimed.len(), if death.alone { 1 } else { 2 });
    let running = if F::TABLES.contains(&"ready") { "jobs.running".to_owned() } else { F::table("job") };
    let Crashed { attempt, crashes, .. } = death;
    client
        .execute(&format!("update {running} set attempt = {attempt}, crashes = {crashes} where id = {id}"))
        .await
        .unwrap();
    if let Some(kills @ 1..) = death.kills {
        let kill = format!(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < {kills})
             insert into {} (job_id, attempt, kind, message) select {id}, 1, 'killed', 'earlier' from n",
            F::table("job_error")
        );
        client.execute(&kill).await.unwrap();
    }
    if death.kills.is_some() {
        db.storage().open_heartbeat(worker).await.unwrap().beat(true, HOUR).await.unwrap().unwrap();
    }
    id
}

pub(crate) async fn both_databases_decide_as_the_policy_does<F: Fixture>(f: F) {
    let db = f.database();
    let mut cases = Vec::new();
    for death in deaths() {
        cases.push((dying(&f, death).await, death));
    }
    f.pass(4 * HOUR).await;
    rescue(db, POLICY).await;
    for (id, death) in cases {
        let decision = POLICY.decide(death);
        let (record, failures) = show(db, id).await.unwrap();
        let state = if decision.discard_reason.is_some() { JobState::Discarded } else { JobState::Available };
        let attempt = if decision.released { death.attempt - 1 } else { death.attempt };
        assert_eq!((record.state, record.attempt, record.crashes), (state, attempt, decision.crashes), "{death:?}");
        let newest = failures.last().unwrap();
        let kind = if decision.released { FailureKind::Killed } else { FailureKind::Crash };
        assert_eq!(newest.kind, kind, "{death:?}");
        let mentions = |text: &str| newest.message.contains(text);
        assert!(decision.discard_reason.is_none_or(mentions), "{death:?}: {}", newest.message);
        assert_eq!(mentions(KILLED_TOO_OFTEN), death.kills.is_some() && !decision.released, "{death:?}");
        assert_eq!(mentions(RUNS_ALONE), decision.quarantined && !decision.released, "{death:?}");
    }
}

/// A job that was in two crashes. That many quarantine a job.
async fn quarantined<F: Port>(f: &F) -> JobId {
    let db = f.database();
    let id = enqueue(f, job()).await;
    for _ in 0..2 {
        assert_eq!(ids(&claim(db, mortal(db).await, 1).await), [id]);
        rescue(db, POLICY).await;
    }
    id
}

pub(crate) async fn a_quarantined_job_is_claimed_by_itself_and_by_one_worker_in_four<F: Port>(f: F) {
    let db = f.database();
    let (worker, other) = (worker(db).await, worker(db).await);
    let first = quarantined(&f).await;
    // This claim has no limit of crashes, so it also returns the first job.
    let second = enqueue(&f, job()).await;
    for _ in 0..2 {
        assert_eq!(claim(db, mortal(db).await, 2).await.len(), 2);
        rescue(db, POLICY).await;
    }
    let wary = Claim { quarantined_at: POLICY.quarantined_at(), ..wants(worker, &[("default", 10)]) };
    assert!(db.storage().claim(&wary).await.unwrap().is_empty());
    assert_eq!(db.storage().next_due(&wary, ANY_TIME).await.unwrap(), None);
    let harmless = enqueue(&f, job()).await;
    assert_eq!(ids(&db.storage().claim(&wary).await.unwrap()), [harmless]);

    let elsewhere = Claim { wanted: vec![Wanted::new("elsewhere", 1)], ..wary.clone() };
    assert!(db.storage().claim(&elsewhere.for_quarantined()).await.unwrap().pop().is_none());
    let unknown = Claim { kinds: Arc::new(["b".to_owned()]), ..wary.clone() };
    assert!(db.storage().claim(&unknown.for_quarantined()).await.unwrap().pop().is_none());
    let unregistered = Claim { worker: WorkerId::generate(), ..wary.clone() };
    assert!(db.storage().claim(&unregistered.for_quarantined()).await.unwrap().pop().is_none());

    let claimed = db.storage().claim(&wary.for_quarantined()).await.unwrap().pop().unwrap();
    assert_eq!((claimed.lease.job, claimed.lease.worker, claimed.attempt), (first, worker, 5));
    let theirs = Claim { worker: other, ..wary };
    assert!(db.storage().claim(&theirs.for_quarantined()).await.unwrap().pop().is_none(), "one is running");
    assert!(finish(db, &claimed, DONE).await);
    let claimed = db.storage().claim(&theirs.for_quarantined()).await.unwrap().pop().unwrap();
    assert_eq!((claimed.lease.job, claimed.lease.worker), (second, other));

    let third = quarantined(&f).await;
    for _ in 0..5 {
        crate::bench::worker(db).await;
    }
    assert!(
        db.storage().claim(&theirs.for_quarantined()).await.unwrap().pop().is_none(),
        "seven workers are not eight"
    );
    crate::bench::worker(db).await;
    let beside = db.storage().claim(&theirs.for_quarantined()).await.unwrap().pop().unwrap();
    assert_eq!(beside.lease.job, third);
    assert!(finish(db, &claimed, DONE).await);
    assert!(finish(db, &beside, DONE).await);
    assert!(!db.storage().rescue(POLICY).await.unwrap().quarantined_due);
}

pub(crate) async fn a_snooze_sets_the_crashes_to_zero_and_a_failure_does_not<F: Port>(f: F) {
    let db = f.database();
    let id = quarantined(&f).await;
    let worker = worker(db).await;
    for (transition, crashes) in
        [(retry_in(Duration::ZERO), 2), (Transition::Release, 2), (Transition::Snooze(Duration::ZERO), 0)]
    {
        let job = claim(db, worker, 1).await.remove(0);
        assert_eq!(job.lease.job, id);
        assert!(finish(db, &job, transition).await);
        assert_eq!(record(db, id).await.crashes, crashes);
    }
}

pub(crate) async fn a_zombies_finish_is_refused_and_its_heartbeat_says_no<F: Port>(f: F) {
    let db = f.database();
    let zombie = mortal(db).await;
    let mut heartbeat = db.storage().open_heartbeat(zombie).await.unwrap();
    let old = claimed(&f, zombie, job()).await;
    rescue(db, POLICY).await;
    assert!(heartbeat.beat(false, MORTAL).await.unwrap().is_none());
    assert!(!finish(db, &old, DONE).await);
    assert_eq!(claim(db, zombie, 1).await.len(), 0);
    let new = claim(db, worker(db).await, 1).await.remove(0);
    assert!(!finish(db, &old, DONE).await);
    assert!(finish(db, &new, DONE).await);
}

pub(crate) async fn concurrent_rescuers_count_one_crash<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    enqueue_all(&f, vec![job(); 50]).await;
    let jobs = claim(db, dead, 50).await;
    let mut rescuers = Vec::new();
    for _ in 0..6 {
        let db = f.again().await;
        rescuers.push(tokio::spawn(async move {
            let mut freed = 0;
            for _ in 0..10 {
                freed += db.storage().rescue(POLICY).await.unwrap().returned.len();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            freed
        }));
    }
    let mut freed = 0;
    for rescuer in rescuers {
        freed += rescuer.await.unwrap();
    }
    assert_eq!(freed, 50);
    for job in jobs {
        assert_eq!(record(db, job.lease.job).await.crashes, 1);
    }
}

/// Enqueues these jobs, and lets a worker of its own claim them.
pub(crate) async fn held_by_one<F: Fixture>(f: &F, jobs: Vec<NewJob>) -> (WorkerId, Vec<JobId>) {
    let (db, number) = (f.database(), jobs.len());
    let worker = worker(db).await;
    let mut enqueued = enqueue_all(f, jobs).await;
    let kinds = ["a".to_owned(), "refused".to_owned()].into();
    let claimed = db.storage.claim(&Claim { kinds, ..wants(worker, &[("default", number)]) }).await.unwrap();
    let mut claimed: Vec<JobId> = claimed.iter().map(|job: &ClaimedJob| job.lease.job).collect();
    claimed.sort();
    enqueued.sort();
    assert_eq!(claimed, enqueued);
    (worker, enqueued)
}

pub(crate) fn last_attempt() -> NewJob {
    with(|job| job.max_attempts = 1)
}

/// The workers that have a row.
pub(crate) async fn workers(db: &Database) -> Vec<WorkerId> {
    db.operator.workers().await.unwrap().into_iter().map(|worker| worker.id).collect()
}

async fn set_crashes<F: Fixture>(f: &F, id: JobId, crashes: u16) {
    let running = if F::TABLES.contains(&"ready") { "jobs.running".to_owned() } else { F::table("job") };
    f.client().await.execute(&format!("update {running} set crashes = {crashes} where id = {id}")).await.unwrap();
}

pub(crate) async fn a_lost_job_that_is_not_discarded_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let (several, of_several) = held_by_one(&f, vec![job(), refused(last_attempt()), last_attempt()]).await;
    let (single, alone) = held_by_one(&f, vec![refused(job())]).await;
    set_crashes(&f, alone[0], 2).await;
    let (_, others) = held_by_one(&f, vec![job(), job()]).await;
    f.pass(4 * HOUR).await;
    let mut rescued = rescue(db, POLICY).await;
    put_off(&f).await;
    rescued.returned.sort();
    assert_eq!(rescued.returned, [of_several[0], others[0], others[1]]);
    assert_eq!(rescued.discarded, [of_several[2]]);
    rescued.refused.sort();
    let bad = [of_several[1], alone[0]];
    assert_eq!(rescued.refused.len(), 2, "{rescued:?}");
    for (id, text) in bad.iter().zip(&rescued.refused) {
        let beginning = format!("job {id} of kind `refused` in queue `default`, whose worker died, was not rescued: ");
        assert!(text.starts_with(&beginning) && text.ends_with("not now"), "{text}");
    }
    // Their workers stay, so that a later rescue decides in the same way. It does not try them each time.
    let mut left = workers(db).await;
    left.sort();
    assert_eq!(left, [several, single]);
    let first_of_all = with(|job| (job.max_attempts, job.priority) = (1, 9));
    let (_, later) = held_by_one(&f, vec![first_of_all]).await;
    f.client().await.execute(&age_workers::<F>()).await.unwrap();
    let rescued = rescue(db, POLICY).await;
    assert_eq!((rescued.discarded, rescued.refused.len(), rescued.left_behind), (later, 0, false));
    let findings = found(db, "admission").await;
    assert_eq!(findings.len(), 2, "{findings:?}");
    for id in bad {
        let what = format!("the end of job {id} (refused) in queue `default` has failed once since ");
        assert!(findings.iter().any(|finding| finding.what.starts_with(&what)), "{findings:?}");
        assert_eq!(state(db, id).await, JobState::Running);
        assert_eq!(failures(db, id).await.len(), 0);
    }
    f.client().await.execute(repair).await.unwrap();
    f.pass(MINUTE).await;
    let mut rescued = rescue(db, POLICY).await;
    rescued.discarded.sort();
    assert_eq!((&rescued.discarded[..], rescued.refused.len()), (&bad[..], 0));
    for (id, crashes) in bad.into_iter().zip([1, 3]) {
        let (record, failures) = show(db, id).await.unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Discarded, 1, crashes));
        assert_eq!((failures.len(), failures[0].kind), (1, FailureKind::Crash));
        assert!(failures[0].message.contains("4711") && failures[0].message.contains("bench"), "{failures:?}");
    }
    assert_eq!(workers(db).await, []);
    none(db, "admission").await;
    assert_eq!(db.storage.rescue(POLICY).await.unwrap().refused.len(), 0);
}

/// Lets the heartbeats of all workers become too old, and moves no other time.
fn age_workers<F: Fixture>() -> String {
    let hours = if F::TABLES.contains(&"ready") { "interval '4 hours'" } else { "14400000000" };
    format!("update {} set heartbeat_at = heartbeat_at - {hours}", F::table("worker"))
}

/// Lets an error meet running jobs of the kind `refused` when they become available, and the repair.
fn refusing_to_wait<F: Fixture>() -> (&'static str, &'static str) {
    match F::TABLES.contains(&"ready") {
        true => (
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now' using errcode = '55000'; end $$;
             create trigger refuse before insert on jobs.ready for each row when (new.kind = 'refused') execute function refuse()",
            "drop trigger refuse on jobs.ready",
        ),
        false => (
            "create trigger refuse before update of state on jobs_job when new.kind = 'refused' and new.state = 'available'
             begin select raise(abort, 'not now'); end",
            "drop trigger refuse",
        ),
    }
}

/// The later rescue finds such a job without the others. It must not take it for the only job of its worker, which it
/// would discard, and it must know that the other worker was draining.
pub(crate) async fn a_lost_job_that_is_refused_is_treated_like_the_others_later<F: Fixture>(f: F) {
    let db = f.database();
    let strict = RescuePolicy { max_crashes: 1, ..POLICY };
    let (_, crashed) = held_by_one(&f, vec![job(), refused(job())]).await;
    let (drained, killed) = held_by_one(&f, vec![job(), refused(last_attempt())]).await;
    db.storage.open_heartbeat(drained).await.unwrap().beat(true, HOUR).await.unwrap().unwrap();
    let (refuse, repair) = refusing_to_wait::<F>();
    f.client().await.execute(refuse).await.unwrap();
    f.pass(4 * HOUR).await;
    let rescued = rescue(db, strict).await;
    put_off(&f).await;
    assert_eq!((rescued.returned, rescued.released), (vec![crashed[0]], vec![killed[0]]));
    assert_eq!(rescued.refused.len(), 2, "{:?}", rescued.refused);
    f.client().await.execute(repair).await.unwrap();
    f.pass(MINUTE).await;
    let rescued = rescue(db, strict).await;
    assert_eq!((rescued.returned, rescued.released), (vec![crashed[1]], vec![killed[1]]));
    for id in crashed {
        assert_eq!(record(db, id).await.crashes, 1);
    }
    for id in killed {
        let record = record(db, id).await;
        assert_eq!((record.attempt, record.crashes), (0, 0));
    }
    assert_eq!(workers(db).await, []);
    none(db, "admission").await;
}
