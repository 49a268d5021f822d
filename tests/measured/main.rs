//! How long many jobs take on SQLite.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

use std::time::{Duration, Instant};

use diesel::{Connection as _, SqliteConnection};
use diesel_async::AsyncConnection as _;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs_core::storage::{Claim, Wanted, WorkerInfo};
use diesel_jobs_core::{NewJob, WorkerId};
use diesel_jobs_storage::{Database, enqueue_all};

const JOBS: usize = 100_000;

fn is_over_within(limit: Duration, what: &str, begun: Instant) {
    let took = begun.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(took < limit, "{what}: {took:?}");
}

#[tokio::test]
async fn a_hundred_thousand_jobs_go_in_within_seconds_and_slow_no_claim() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jobs.db").to_str().unwrap().to_owned();
    let db = Database::open(&format!("sqlite://{file}"), 4).await.unwrap();
    db.migrator.up().await.unwrap();
    let jobs: Vec<NewJob> = (0..JOBS).map(|index| NewJob::raw("a", format!("{{\"id\":{index}}}"))).collect();
    let mut conn = SqliteConnection::establish(&file).unwrap();
    let begun = Instant::now();
    assert_eq!(enqueue_all(&mut conn, jobs.clone()).unwrap().len(), JOBS);
    is_over_within(Duration::from_secs(20), "an enqueue on SqliteConnection", begun);
    let mut conn = SyncConnectionWrapper::<SqliteConnection>::establish(&file).await.unwrap();
    let begun = Instant::now();
    assert_eq!(enqueue_all(&mut conn, jobs).await.unwrap().len(), JOBS);
    is_over_within(Duration::from_secs(20), "an enqueue on SyncConnectionWrapper", begun);

    // A claim reads a few index entries, however many jobs wait.
    let worker = WorkerId::generate();
    db.storage.register(&WorkerInfo::new(worker, Duration::from_secs(3600))).await.unwrap();
    let claim = Claim::new(worker, vec![Wanted::new("default", 10)], ["a".to_owned()]);
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(db.storage.claim(&claim).await.unwrap().len(), 10);
    }
    is_over_within(Duration::from_secs(2), "twenty claims", begun);
}
