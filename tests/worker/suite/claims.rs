//! Claims of several workers at once. The measurements compare them with claims as they are often written at first.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::worker::WorkerId;
use diesel_jobs::{JobContext, JobError, JobId, NewJob, State, Worker, job};
use diesel_jobs_core::storage::{Claim, Wanted, WorkerInfo};
use support::{Db, Running, registry};
use tokio::sync::Barrier;

/// Planner settings that force nested loops, in which a subselect with a limit may run again for each row.
const NESTED_LOOPS: &str = "do $$ declare setting text; begin
    foreach setting in array array['hashjoin', 'mergejoin', 'hashagg', 'sort', 'material', 'memoize'] loop
        execute format('alter database %I set enable_%s = off', current_database(), setting);
    end loop; end $$";

async fn eight_claimers_at_once_take_each_job_once_and_no_more_than_they_ask_for(db: Db) {
    const JOBS: usize = 400;
    db.execute(NESTED_LOOPS).await;
    db.conn().await.enqueue_all((0..JOBS).map(|_| NewJob::raw("work", "{}"))).await;
    let barrier = Arc::new(Barrier::new(8));
    let mut claimers = Vec::new();
    for _ in 0..8 {
        let (database, mut conn, barrier) = (db.again().await, db.conn().await, barrier.clone());
        claimers.push(tokio::spawn(async move {
            let id = WorkerId::generate();
            let info =
                WorkerInfo { queues: vec!["default".to_owned()], ..WorkerInfo::new(id, Duration::from_secs(3600)) };
            database.storage.register(&info).await.unwrap();
            barrier.wait().await;
            let mut taken = Vec::new();
            while conn.number("select count(*) as number from jobs.ready").await > 0 {
                let claim = Claim::new(id, vec![Wanted::new("default", 10)], ["work".to_owned()]);
                let jobs = database.storage.claim(&claim).await.unwrap();
                assert!(jobs.len() <= 10, "{} jobs", jobs.len());
                taken.extend(jobs.into_iter().map(|job| job.lease.job));
            }
            taken
        }));
    }
    let mut taken: Vec<JobId> = Vec::new();
    for claimer in claimers {
        taken.extend(claimer.await.unwrap());
    }
    assert_eq!(taken.len(), JOBS);
    assert_eq!(taken.into_iter().collect::<HashSet<_>>().len(), JOBS, "each job was claimed once");
}

/// Every start, with the job and the attempt.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<(JobId, u16)>>>);

async fn start(fails: bool, ctx: &JobContext, starts: &Starts) -> Result<(), JobError> {
    starts.0.lock().unwrap().push((ctx.id(), ctx.attempt()));
    tokio::time::sleep(Duration::from_millis(10)).await;
    if fails && ctx.attempt() == 1 { Err(JobError::msg("at first")) } else { Ok(()) }
}

#[job(max_attempts = 3, backoff = "fixed(20ms)")]
async fn resize_image(fails: bool, ctx: &JobContext, State(starts): State<Starts>) -> Result<(), JobError> {
    start(fails, ctx, &starts).await
}

#[job(max_attempts = 3, backoff = "fixed(20ms)")]
async fn send_mail(fails: bool, ctx: &JobContext, State(starts): State<Starts>) -> Result<(), JobError> {
    start(fails, ctx, &starts).await
}

async fn on_four_workers_each_attempt_is_started_once(db: Db) {
    let starts = Starts::default();
    let all = (0..20).flat_map(|number| {
        [
            ResizeImage { fails: number % 4 == 0 }.into_new_job().unwrap(),
            SendMail { fails: number % 4 == 0 }.into_new_job().unwrap(),
        ]
    });
    let ids = db.conn().await.enqueue_all(all).await;
    let mut workers = Vec::new();
    for _ in 0..4 {
        let worker = Worker::builder(db.again().await.storage).registry(registry![ResizeImage, SendMail]);
        let worker = worker.state(starts.clone()).slots(1).poll_interval(Duration::from_millis(50));
        workers.push(Running::start(worker));
    }
    db.await_number(40, "select count(*) as number from jobs.job where state = 'completed'").await;
    for worker in workers {
        assert_eq!(worker.stop().await.leases_lost, 0);
    }
    let mut attempts = Vec::new();
    for id in ids {
        attempts.extend((1..=db.record(id).await.attempt).map(|attempt| (id, attempt)));
    }
    let mut started = starts.0.lock().unwrap().clone();
    started.sort_unstable();
    attempts.sort_unstable();
    assert_eq!(started, attempts, "each attempt was started once");
    assert_eq!(started.len(), 50, "forty first attempts and ten second ones");
}

support::on_postgres! {
    eight_claimers_at_once_take_each_job_once_and_no_more_than_they_ask_for,
    on_four_workers_each_attempt_is_started_once,
}
