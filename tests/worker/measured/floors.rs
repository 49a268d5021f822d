//! Scan floors: claims start where the last ones ended. Jobs that appear below that place later must be found: those of
//! a transaction that commits late, and those that are given back.

use std::time::Duration;

use diesel_jobs::worker::WorkerId;
use diesel_jobs::{JobContext, JobState, State, job};
use diesel_jobs_core::storage::{Claim, PassOn, Wanted};
use support::{Db, Probe, Running, registry};

use crate::table::alone_on;

/// The limit for jobs that only a rescan finds. It runs every second, and more seldom on a busy machine.
const RESCAN: Duration = Duration::from_secs(4);

#[job]
async fn tells(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "ran");
}

/// Runs jobs one by one, until the scan floors have moved far.
async fn a_while(db: &Db) {
    for _ in 0..30 {
        let id = db.enqueue(Tells {}).await;
        db.await_state(id, JobState::Completed).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn jobs_whose_transactions_commit_seconds_later_run_at_once(db: Db) {
    let (probe, _events) = Probe::new();
    let worker = Running::start(db.worker(registry![Tells]).state(probe).poll_interval(Duration::from_millis(100)));
    a_while(&db).await;
    let mut late = Vec::new();
    for _ in 0..6 {
        let mut conn = db.conn().await;
        conn.execute("begin").await;
        let id = conn.enqueue(Tells {}).await;
        late.push((conn, id));
    }
    a_while(&db).await;
    // A periodic rescan may find one of them in time by chance, but not all of them.
    for (mut conn, id) in late {
        conn.execute("commit").await;
        let committed = tokio::time::Instant::now();
        db.await_state(id, JobState::Completed).await;
        let waited = committed.elapsed();
        assert!(waited < Duration::from_millis(400), "found by the rescan only, after {waited:?}");
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
    worker.stop().await;
}

async fn jobs_that_came_back_to_their_old_places_are_found_by_a_rescan(db: Db) {
    let (probe, _events) = Probe::new();
    // A worker claims the jobs, and gives them back much later.
    let first = WorkerId::generate();
    let info = diesel_jobs_core::storage::WorkerInfo {
        host: "elsewhere".to_owned(),
        queues: vec!["default".to_owned()],
        ..diesel_jobs_core::storage::WorkerInfo::new(first, Duration::from_secs(3600))
    };
    db.storage().register(&info).await.unwrap();
    let ids: Vec<_> = db.conn().await.enqueue_all((0..50).map(|_| Tells {})).await;
    let claim = Claim::new(first, vec![Wanted::new("default", 50)], ["tells".to_owned()]);
    let elsewhere = db.again().await.storage;
    let claimed = elsewhere.claim(&claim).await.unwrap();
    assert_eq!(claimed.len(), 50);

    let worker =
        Running::start(db.worker(registry![Tells]).state(probe).slots(4).poll_interval(Duration::from_secs(60)));
    a_while(&db).await;
    // Waits until the rescan after the last claim is over. A notification of the release causes the next one.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let release = |job| diesel_jobs_core::Finish::new(job, diesel_jobs_core::Transition::Release);
    let releases: Vec<_> = claimed.iter().map(release).collect();
    elsewhere.finish(&releases, PassOn::Nothing).await.unwrap();
    let released = tokio::time::Instant::now();
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    // One rescan finds all of them, not four each: the first one found lowers the scan floor, and claims find the
    // others.
    assert!(released.elapsed() < RESCAN, "{:?}", released.elapsed());
    worker.stop().await;
}

#[job]
async fn short() {}

#[job]
async fn steady() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

async fn released_prefetched_jobs_do_not_wait_for_the_periodic_rescan(db: Db) {
    const SHORT: i64 = 20;
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    // An idle worker would be notified of released jobs. This one always has jobs, and its scan floor has followed
    // them.
    conn.enqueue_all((0..10_000).map(|_| Steady {})).await;
    let worker = Running::start(db.worker(registry![Short, Steady, Held]).state(probe).slots(1));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let mut rounds = 0;
    for round in 1..=4 {
        conn.execute("begin").await;
        conn.enqueue(Held {}).await;
        conn.enqueue_all((0..SHORT).map(|_| Short {})).await;
        // They come before all jobs that the worker claims next.
        let before = "update jobs.ready set run_at = run_at - interval '1 minute' + id * interval '1 us' where kind in ('held', 'short')";
        conn.execute(before).await;
        conn.execute("commit").await;
        events.expect("started").await;
        // The jobs that are prefetched behind it go back after a quarter of a second.
        tokio::time::sleep(Duration::from_millis(350)).await;
        let went_back = "select count(*) as number from jobs.ready where kind = 'short' and lease = 1";
        let back = db.number(went_back).await;
        events.open(1);
        let opened = tokio::time::Instant::now();
        let ended = "select count(*) as number from jobs.finished where kind = 'short'";
        db.await_number(round * SHORT, ended).await;
        let waited = opened.elapsed();
        // After a long job the worker prefetches nothing until enough short ones have run.
        if back > 0 {
            rounds += 1;
            assert!(
                waited < Duration::from_millis(250),
                "found by the rescan that comes every second, after {waited:?}"
            );
        }
    }
    assert!(rounds > 0, "no short job went back in any round");
    assert!(db.number("select count(*) as number from jobs.ready").await > 0, "it was never idle");
    worker.stop().await;
}

alone_on! { on_postgres by postgres {
    released_prefetched_jobs_do_not_wait_for_the_periodic_rescan,
    jobs_whose_transactions_commit_seconds_later_run_at_once,
    jobs_that_came_back_to_their_old_places_are_found_by_a_rescan,
} }
