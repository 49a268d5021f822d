//! The database executes a statement and the reply is lost on the way. What was done must not wait for ever.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, JobState, State, Worker, job};
use support::{Db, Probe, Running, registry};
use tokio::sync::Notify;

use crate::lossy::Lossy;

/// No test waits for the end of a lease. Checks come six times in a lease, and a search for unknown leases twice.
const LEASE: Duration = Duration::from_secs(6);

#[job]
async fn once(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// Runs five jobs on a storage that loses these replies. Each must run once, without a failure.
async fn five_jobs_run_once(db: Db, claims: usize, finishes: usize, late: Option<Duration>) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..5).map(|_| Once {})).await;
    let lossy = Lossy { late, ..Lossy::losing(&db, claims, finishes) };
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).slots(2);
    let worker = Running::start(worker.poll_interval(Duration::from_millis(50)).lease(LEASE));
    for id in ids {
        let (job, failures) = {
            db.await_state(id, JobState::Completed).await;
            db.show(id).await
        };
        assert_eq!((job.attempt, job.crashes, failures.len()), (1, 0, 0));
    }
    let stats = worker.stop().await;
    assert_eq!(stats.leases_lost, 0);
    assert_eq!(events.rest().len(), 5, "each ran once");
}

async fn a_claim_whose_answer_was_lost_runs_all_the_same(db: Db) {
    five_jobs_run_once(db, 2, 0, None).await;
}

async fn a_claim_carried_out_long_after_it_was_given_up_keeps_no_job(db: Db) {
    five_jobs_run_once(db, 1, 0, Some(Duration::from_secs(2))).await;
}

/// A handler that ran under a dead worker id could not be asked to stop.
async fn a_claim_under_an_id_that_was_declared_dead_runs_no_job(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Once {}).await;
    let let_go = Arc::new(Notify::new());
    let lossy = Lossy { held_back: Some(let_go.clone()), ..Lossy::losing(&db, 0, 0) };
    let holds_back = lossy.holds_back.clone();
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe);
    let worker = Running::start(worker.poll_interval(Duration::from_millis(50)).lease(LEASE));
    support::until("the claim", async || holds_back.load(Ordering::SeqCst).then_some(())).await;
    let first = db.record(id).await;
    // As a rescue does that did not see the claim.
    db.execute("delete from jobs.worker").await;
    db.await_number(1, "select count(*) as number from jobs.worker").await;
    let_go.notify_one();
    let job = db.await_state(id, JobState::Completed).await;
    assert_ne!(job.worker, first.worker, "the dead id's attempt has not run");
    assert_eq!((worker.stop().await.leases_lost, events.rest().len()), (0, 1));
}

/// Starts a worker whose claim is executed and never answered, and stops it. The claimed job must be released.
async fn stops_without_an_answer(db: &Db, grace: Duration) {
    let id = db.enqueue(Once {}).await;
    let lossy = Lossy { held_back: Some(Arc::default()), ..Lossy::losing(db, 0, 0) };
    let holds_back = lossy.holds_back.clone();
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(Probe::new().0);
    let worker = Running::start(worker.grace_period(grace).lease(LEASE));
    support::until("the claim", async || holds_back.load(Ordering::SeqCst).then_some(())).await;
    worker.stop().await;
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0), "the job was released");
}

/// The network drops every packet, and the grace period is long. The worker does not wait for it, as no job runs.
async fn a_claim_that_is_never_answered_does_not_keep_a_worker_from_stopping(db: Db) {
    stops_without_an_answer(&db, Duration::from_secs(24 * 3600)).await;
    db.await_number(0, "select count(*) as number from jobs.worker").await;
}

/// The server may still execute such a claim. So the worker's row stays, and says that it was stopping.
async fn a_worker_whose_claim_may_still_be_executed_does_not_deregister(db: Db) {
    stops_without_an_answer(&db, Duration::ZERO).await;
    db.await_number(1, "select count(*) as number from jobs.worker where draining_at is not null").await;
}

/// It never yields, so its attempt cannot end without it.
#[job]
async fn deaf(ctx: &JobContext, State(probe): State<Probe>, State(ends): State<Arc<AtomicBool>>) {
    probe.say(ctx, "started");
    while !ends.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The worker deregisters only if nothing is left.
async fn a_job_that_is_left_at_the_end_is_released_although_the_answer_is_lost(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Deaf {}).await;
    let ends = Arc::new(AtomicBool::new(false));
    let worker = Worker::builder(Arc::new(Lossy::losing(&db, 0, 2))).registry(registry![Deaf]).state(probe);
    let worker = Running::start(worker.state(ends.clone()).grace_period(Duration::ZERO).lease(LEASE));
    events.expect("started").await;
    worker.stop().await;
    ends.store(true, Ordering::SeqCst);
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    db.await_number(0, "select count(*) as number from jobs.worker").await;
}

async fn a_finish_whose_answer_was_lost_is_not_a_lost_lease(db: Db) {
    five_jobs_run_once(db, 0, 2, None).await;
}

#[job(concurrency("bank", limit = 2))]
async fn once_in_turn(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// The jobs that the statement has claimed are unknown to the worker.
#[test]
fn jobs_that_a_finish_has_claimed_run_although_its_answer_was_lost() {
    support::run(Db::postgres(), async |db| {
        let (probe, mut events) = Probe::new();
        let ids = db.conn().await.enqueue_all((0..40).map(|_| OnceInTurn {})).await;
        let lossy = Lossy { claiming_finishes: 3.into(), ..Lossy::losing(&db, 0, 0) };
        let lossy = Arc::new(lossy);
        let worker = Worker::builder(lossy.clone()).registry(registry![OnceInTurn]).state(probe).slots(2);
        let worker = Running::start(worker.poll_interval(Duration::from_millis(50)).lease(Duration::from_secs(30)));
        for id in ids {
            let job = db.await_state(id, JobState::Completed).await;
            assert_eq!((job.attempt, job.crashes), (1, 0));
        }
        assert_eq!(lossy.claiming_finishes.load(Ordering::SeqCst), 0, "three answers were lost");
        assert_eq!((worker.stop().await.leases_lost, events.rest().len()), (0, 40));
    });
}

/// A job that was enqueued an hour ago becomes visible, below the scan floor. The rescanner finds it before the rescan
/// of the worker that wants to end.
#[test]
fn a_worker_that_runs_until_nothing_is_left_runs_what_its_rescanner_has_found() {
    support::run(Db::postgres(), async |db| {
        const PLANT: &str = "insert into jobs.ready (kind, queue, args, run_at) values ('once', 'default', '{}', now() - interval '1 hour')";
        let (probe, mut events) = Probe::new();
        let lossy = Lossy { after_empty_poll: Mutex::new(Some((db.conn().await, PLANT))), ..Lossy::losing(&db, 0, 0) };
        let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).build().unwrap();
        let stats = support::within(support::LIMIT, "nothing to be left", worker.run_until_empty()).await.unwrap();
        assert_eq!((stats.completed, events.rest().len()), (1, 1));
    });
}

async fn outcomes_that_the_database_refuses_for_good_discard_their_jobs_and_hold_nobody_up(db: Db) {
    let (probe, mut events) = Probe::new();
    // Many more than are tried in a row. One job among them, in the same batch, can be written.
    let mut ids = db.conn().await.enqueue_all((0..13).map(|_| Once {})).await;
    let well = ids.remove(6);
    let lossy = Lossy { refusals: usize::MAX.into(), refused: ids.clone(), ..Lossy::losing(&db, 0, 0) };
    let refused = lossy.refused_so_far.clone();
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe);
    let begun = Instant::now();
    let worker = Running::start(worker.poll_interval(Duration::from_millis(50)).lease(LEASE));
    let mut ran = 1 + ids.len();
    // Its end is written although those beside it are refused.
    db.await_state(well, JobState::Completed).await;
    loop {
        // Other jobs can be written, which shows that the refusals are caused by the jobs themselves. Their ends do not
        // wait for those that are refused.
        let others = db.conn().await.enqueue_all([Once {}]).await;
        db.await_state(others[0], JobState::Completed).await;
        ran += 1;
        let mut discarded = 0;
        for id in &ids {
            match db.show(*id).await {
                (job, failures) if job.state == JobState::Discarded => {
                    let said = &failures[0].message;
                    assert!(said.contains("could not be stored: the database refused: not this one"), "{said}");
                    discarded += 1;
                }
                (job, _) => assert_eq!(job.state, JobState::Running, "it is tried again"),
            }
        }
        if discarded == ids.len() {
            break;
        }
        // It is minutes.
        assert!(begun.elapsed() < 2 * support::LIMIT, "only {discarded} were given up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(ran > 2 + ids.len(), "other jobs ran meanwhile");
    assert!(begun.elapsed() > 4 * LEASE, "four leases are not over");
    let (refused, seconds) = (refused.load(Ordering::SeqCst), begun.elapsed().as_secs_f64());
    // A slower machine sends fewer.
    assert!(f64::from(u32::try_from(refused).unwrap()) < 10.0 * seconds, "{refused} refused requests in {seconds} s");
    worker.stop().await;
    assert_eq!(events.rest().len(), ran, "each ran once");
}

async fn what_the_database_refuses_for_a_while_is_written_later(db: Db) {
    // A finish that is refused for four leases is given up.
    refused_for_a_while(db, Duration::from_secs(60)).await;
}

/// The time for which a finish is repeated is measured in leases, and a builder may set any lease. PostgreSQL refuses
/// such a worker.
#[test]
fn what_is_refused_for_a_while_under_an_endless_lease_is_written_later() {
    support::run(Db::sqlite(), |db| refused_for_a_while(db, Duration::MAX));
}

async fn refused_for_a_while(db: Db, lease: Duration) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..20).map(|_| Once {})).await;
    let lossy = Lossy { refusals: 15.into(), ..Lossy::losing(&db, 0, 0) };
    let worker = Worker::builder(Arc::new(lossy)).registry(registry![Once]).state(probe).slots(2);
    let worker = Running::start(worker.poll_interval(Duration::from_millis(50)).lease(lease));
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    assert_eq!(worker.stop().await.leases_lost, 0);
    assert_eq!(events.rest().len(), 20, "each ran once");
}

support::on_each_database! {
    outcomes_that_the_database_refuses_for_good_discard_their_jobs_and_hold_nobody_up,
    what_the_database_refuses_for_a_while_is_written_later,
    a_claim_whose_answer_was_lost_runs_all_the_same,
    a_claim_carried_out_long_after_it_was_given_up_keeps_no_job,
    a_finish_whose_answer_was_lost_is_not_a_lost_lease,
    a_claim_under_an_id_that_was_declared_dead_runs_no_job,
    a_claim_that_is_never_answered_does_not_keep_a_worker_from_stopping,
    a_worker_whose_claim_may_still_be_executed_does_not_deregister,
    a_job_that_is_left_at_the_end_is_released_although_the_answer_is_lost,
}
