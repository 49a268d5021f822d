//! Scan floors: claims start where the last ones ended. Jobs that appear below that place later must be found: those of
//! a transaction that commits late, and those that are given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diesel_jobs::worker::WorkerId;
use diesel_jobs::{JobContext, JobState, State, Worker, job};
use diesel_jobs_core::storage::{Claim, PassOn, Wanted, WorkerInfo};
use diesel_jobs_core::{ClaimedJob, Finish, Transition};
use support::{Db, Probe, Running, registry, until};

use crate::lossy::Lossy;

/// No worker polls so seldom that a test could wait for it. An idle worker rescans once in two polls.
const NEVER: Duration = Duration::from_secs(3600);

#[job]
async fn quick() {}

/// Runs jobs, so that the scan floors are far above jobs that were due an hour ago.
async fn a_few(db: &Db) {
    for _ in 0..5 {
        let id = db.enqueue(Quick {}).await;
        db.await_state(id, JobState::Completed).await;
    }
}

async fn jobs_whose_transactions_commit_much_later_are_found(db: Db) {
    let worker = Running::start(db.worker(registry![Quick]).poll_interval(NEVER));
    let mut late = Vec::new();
    for _ in 0..6 {
        let mut conn = db.conn().await;
        conn.execute("begin").await;
        let id = conn.enqueue(Quick {}).await;
        conn.execute(&format!("update jobs.ready set run_at = run_at - interval '1 hour' where id = {id}")).await;
        late.push((conn, id));
    }
    a_few(&db).await;
    for (mut conn, id) in late {
        conn.execute("commit").await;
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
}

async fn jobs_that_came_back_to_their_old_places_are_found(db: Db) {
    // A worker claims the jobs, and gives them back much later.
    let first = WorkerId::generate();
    let info = WorkerInfo {
        host: "elsewhere".to_owned(),
        queues: vec!["default".to_owned()],
        ..WorkerInfo::new(first, Duration::from_secs(3600))
    };
    db.storage().register(&info).await.unwrap();
    let ids: Vec<_> = db.conn().await.enqueue_all((0..50).map(|_| Quick {})).await;
    let elsewhere = db.again().await.storage;
    let mut claimed = Vec::new();
    while claimed.len() < ids.len() {
        let claim = Claim::new(first, vec![Wanted::new("default", 50)], ["quick".to_owned()]);
        claimed.extend(elsewhere.claim(&claim).await.unwrap());
    }
    db.execute("update jobs.running set run_at = run_at - interval '1 hour'").await;

    let worker = Running::start(db.worker(registry![Quick]).slots(4).poll_interval(NEVER));
    a_few(&db).await;
    let release = |job: &ClaimedJob| Finish::new(job, Transition::Release);
    let releases: Vec<_> = claimed.iter().map(release).collect();
    elsewhere.finish(&releases, PassOn::Nothing).await.unwrap();
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

/// Prefetched jobs go back behind a long job. An idle worker would be notified of them. This one is busy, and must
/// search for them itself.
async fn released_prefetched_jobs_do_not_wait_for_the_periodic_rescan(db: Db) {
    let (probe, mut events) = Probe::new();
    let storage = Lossy::losing(&db, 0, 0);
    let requested = storage.requested_rescans.clone();
    let worker = Worker::builder(Arc::new(storage)).registry(registry![Quick, Held]).state(probe).slots(1);
    let worker = Running::start(worker.poll_interval(NEVER));
    let went_back = "select count(*) as number from jobs.ready where lease = 1";
    let ended = "select (select count(*) from jobs.ready) + (select count(*) from jobs.running) as number";
    loop {
        // On a busy machine the worker may think that the jobs are long, and prefetch none.
        let mut jobs = vec![diesel_jobs::NewJob::raw("quick", "{}"); 100];
        jobs.push(diesel_jobs::NewJob::raw("held", "{}"));
        jobs.extend(vec![diesel_jobs::NewJob::raw("quick", "{}"); 20]);
        let before = requested.load(Ordering::SeqCst);
        db.conn().await.enqueue_all(jobs).await;
        events.expect("started").await;
        until("the prefetched jobs to go back", async || (worker.handle().in_flight() == 1).then_some(())).await;
        let went_back = db.number(went_back).await > 0;
        if went_back {
            until("a rescan", async || (requested.load(Ordering::SeqCst) > before).then_some(())).await;
        }
        events.open(1);
        db.await_number(0, ended).await;
        if went_back {
            break;
        }
    }
    worker.stop().await;
}

support::on_postgres! {
    jobs_whose_transactions_commit_much_later_are_found,
    jobs_that_came_back_to_their_old_places_are_found,
    released_prefetched_jobs_do_not_wait_for_the_periodic_rescan,
}
