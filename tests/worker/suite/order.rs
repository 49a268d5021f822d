//! Which job runs when: concurrency per queue, priorities, and the time for which a job is scheduled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use diesel_jobs::{Job as _, JobContext, JobState, State, Worker, job};
use support::{Db, Probe, Running, registry};
use tokio::sync::Barrier;

/// How many run at the same time, now and at most.
#[derive(Default)]
struct Together {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Together {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// No handler leaves before as many are inside as the queue allows.
#[derive(Clone)]
struct Wide(Arc<Together>, Arc<Barrier>);

#[derive(Clone)]
struct Narrow(Arc<Together>);

#[job(queue = "wide")]
async fn goes_wide(State(wide): State<Wide>) {
    wide.0.enter();
    wide.1.wait().await;
    tokio::task::yield_now().await;
    wide.0.leave();
}

#[job(queue = "narrow")]
async fn goes_narrow(State(narrow): State<Narrow>) {
    narrow.0.enter();
    tokio::time::sleep(Duration::from_millis(2)).await;
    narrow.0.leave();
}

#[job]
async fn tells(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

async fn each_queue_runs_as_many_as_it_may_and_no_more(db: Db) {
    let (wide, narrow) = (Arc::<Together>::default(), Arc::<Together>::default());
    let mut conn = db.conn().await;
    conn.enqueue_all((0..12).map(|_| GoesWide {})).await;
    conn.enqueue_all((0..12).map(|_| GoesNarrow {})).await;
    let worker = db
        .worker(registry![GoesWide, GoesNarrow])
        .state(Wide(wide.clone(), Arc::new(Barrier::new(4))))
        .state(Narrow(narrow.clone()))
        .queue("wide", 4)
        .queue("narrow", 1);
    let worker = worker.build().unwrap();
    let stats = support::within(support::LIMIT, "all to run", worker.run_until_empty()).await.unwrap();
    assert_eq!(stats.completed, 24);
    assert_eq!((wide.most.load(Ordering::SeqCst), narrow.most.load(Ordering::SeqCst)), (4, 1));
}

async fn higher_priorities_run_first_and_ties_in_the_order_of_their_time(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    let mut expected = Vec::new();
    for priority in [0, 5, -7, 5, i16::MAX, 0, i16::MIN] {
        expected.push((std::cmp::Reverse(priority), conn.enqueue(Tells {}.priority(priority)).await));
    }
    expected.sort_unstable();
    // After a slow statement a claim may read only the usual priority.
    let storage = db.storage_without_stopwatch().await;
    let worker = Worker::builder(storage).registry(registry![Tells]).state(probe).slots(1).build().unwrap();
    support::within(support::LIMIT, "all to run", worker.run_until_empty()).await.unwrap();
    let ran: Vec<_> = events.rest().into_iter().map(|event| event.job).collect();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(db.claimed_once(&ran).await, db.claimed_once(&expected).await, "{ran:?}");
}

async fn a_time_in_the_past_is_now(db: Db) {
    let (probe, mut events) = Probe::new();
    let id = db.enqueue(Tells {}.run_at(Utc::now() - TimeDelta::days(400))).await;
    let worker = Running::start(db.worker(registry![Tells]).state(probe));
    assert_eq!(events.next().await.job, id);
    worker.stop().await;
}

async fn one_worker_at_concurrency_1_runs_jobs_in_their_order(db: Db) {
    const JOBS: usize = 500;
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    // The first half waits already, the second half is enqueued while the worker runs.
    let mut ids = conn.enqueue_all((0..JOBS / 2).map(|_| Tells {})).await;
    let worker = Running::start(db.worker(registry![Tells]).state(probe).slots(1));
    for _ in JOBS / 2..JOBS {
        ids.push(conn.enqueue(Tells {}).await);
    }
    let mut ran = Vec::new();
    for _ in 0..JOBS {
        ran.push(events.next().await.job);
    }
    worker.stop().await;
    let in_order = db.claimed_once(&ran).await;
    assert!(in_order.is_sorted(), "{in_order:?} of {ran:?}");
    ran.sort_unstable();
    assert_eq!(ran, ids, "each once");
}

#[job]
async fn long(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "long");
    probe.pass().await;
}

async fn a_long_job_at_the_head_does_not_delay_the_others(db: Db) {
    let (probe, mut events) = Probe::new();
    let head = db.enqueue(Long {}.priority(100)).await;
    let worker = Running::start(db.worker(registry![Tells, Long]).state(probe).slots(2));
    assert_eq!(events.expect("long").await.job, head);
    db.conn().await.enqueue_all((0..200).map(|_| Tells {})).await;
    // The long job ends only after this.
    for _ in 0..200 {
        events.expect("ran").await;
    }
    events.open(1);
    assert_eq!(worker.stop().await.completed, 201);
}

/// The poll interval of this worker is far too long to match the time by chance.
async fn a_delayed_job_is_not_early_and_does_not_wait_for_a_poll(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Tells]).state(probe).slots(1).poll_interval(Duration::from_secs(3600));
    let worker = Running::start(worker);
    let now = db.enqueue(Tells {}).await;
    assert_eq!(events.next().await.job, now, "the worker is up");
    // Both are enqueued while the worker is idle, usually the later one first.
    let mut conn = db.conn().await;
    let later = conn.enqueue(Tells {}.run_at(Utc::now() + TimeDelta::milliseconds(1500))).await;
    let asked = Utc::now();
    let sooner = conn.enqueue(Tells {}.delay(Duration::from_millis(500))).await;
    // PostgreSQL has microseconds.
    let delayed = asked + TimeDelta::milliseconds(499)..Utc::now() + TimeDelta::milliseconds(501);
    let mut ran = Vec::new();
    for id in [sooner, later] {
        let job = db.await_state(id, JobState::Completed).await;
        let (run_at, claimed_at) = (job.run_at, job.claimed_at.unwrap());
        assert!(claimed_at >= run_at, "{claimed_at} is early for {run_at}");
        if id == sooner {
            assert!(delayed.contains(&run_at), "{run_at} is not in {delayed:?}");
        }
        ran.push((run_at, id));
    }
    ran.sort_unstable();
    for (_, id) in ran {
        assert_eq!(events.next().await.job, id);
    }
    worker.stop().await;
}

#[job(queue = "idle")]
async fn never_comes() {}

/// The worker claims for an empty queue while the other queue has no free slot. Slots that become free during that
/// claim must be used.
async fn an_idle_queue_beside_does_not_make_a_busy_one_wait_for_polls(db: Db) {
    let narrow = Arc::<Together>::default();
    db.conn().await.enqueue_all((0..300).map(|_| GoesNarrow {})).await;
    let worker = db.worker(registry![GoesNarrow, NeverComes]).queue("narrow", 2).queue("idle", 2).state(Narrow(narrow));
    let worker = worker.poll_interval(Duration::from_secs(3600)).build().unwrap();
    let stats =
        support::within(2 * support::LIMIT, "all to run without a poll", worker.run_until_empty()).await.unwrap();
    assert_eq!(stats.completed, 300);
}

support::on_each_database! {
    an_idle_queue_beside_does_not_make_a_busy_one_wait_for_polls,
    each_queue_runs_as_many_as_it_may_and_no_more,
    higher_priorities_run_first_and_ties_in_the_order_of_their_time,
    a_time_in_the_past_is_now,
    one_worker_at_concurrency_1_runs_jobs_in_their_order,
    a_long_job_at_the_head_does_not_delay_the_others,
    a_delayed_job_is_not_early_and_does_not_wait_for_a_poll,
}
