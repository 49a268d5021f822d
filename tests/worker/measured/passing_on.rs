//! Finishes that claim the jobs to which they pass permits on: how many claims they save, and how soon other jobs have
//! their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel_jobs::job;
use diesel_jobs::metrics::{Event, Recorder};
use support::{Db, Running, registry, until};

use crate::table::{alone_on, print, row};

#[job(concurrency("busy", limit = 2))]
async fn busy() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// Longer than what is prefetched.
const LONG: Duration = Duration::from_millis(60);

#[job(concurrency("long", limit = 2))]
async fn long() {
    tokio::time::sleep(LONG).await;
}

#[job]
async fn other() {
    tokio::time::sleep(LONG).await;
}

/// Counts the claims.
#[derive(Default)]
struct Claims(AtomicUsize);

impl Recorder for Claims {
    fn record(&self, event: &Event<'_>) {
        if matches!(event, Event::StorageOperation { operation: "claim", .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn the_jobs_of_a_key_need_few_claims(db: Db) {
    db.conn().await.enqueue_all((0..400).map(|_| Busy {})).await;
    let claims = Arc::new(Claims::default());
    let worker = db.worker(registry![Busy]).slots(2).poll_interval(Duration::from_secs(10)).recorder(claims.clone());
    let worker = Running::start(worker);
    db.await_number(400, "select count(*) as number from jobs.finished where state = 1").await;
    assert_eq!(worker.stop().await.completed, 400);
    let claims = claims.0.load(Ordering::SeqCst);
    print("400 jobs of a key with two permits", &[row!["claims", "generations"], row![claims, 200]]);
    assert!(claims < 200, "{claims} claims for 200 generations of two jobs");
}

/// The jobs of the key have taken both slots of the worker again and again. They do not go on while others wait that
/// were due before them.
async fn other_jobs_that_wait_come_before_the_next_jobs_of_a_key(db: Db) {
    const STARTED: &str = "select count(*) as number from jobs.job where kind = 'long' and attempt > 0";
    db.conn().await.enqueue_all((0..200).map(|_| Long {})).await;
    let worker = Running::start(db.worker(registry![Long, Other]).slots(2));
    until("the first jobs", async || (db.number(STARTED).await > 10).then_some(())).await;
    db.conn().await.enqueue_all((0..60).map(|_| Other {})).await;
    let before = db.number(STARTED).await;
    let others = "select count(*) as number from jobs.finished where state = 1 and kind = 'other'";
    db.await_number(60, others).await;
    let meanwhile = db.number(STARTED).await - before;
    worker.stop().await;
    assert!(meanwhile < 8, "{meanwhile} jobs of the key began while 60 others waited");
}

alone_on! { on_postgres by postgres {
    the_jobs_of_a_key_need_few_claims,
    other_jobs_that_wait_come_before_the_next_jobs_of_a_key,
} }
