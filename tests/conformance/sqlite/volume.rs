//! Many jobs: enqueues and claims stay fast.

use std::time::{Duration, Instant};

use diesel_jobs_core::NewJob;

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Fixture, run};

#[test]
fn a_hundred_thousand_jobs_go_in_within_seconds() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let jobs: Vec<NewJob> = (0..100_000).map(|index| NewJob::raw("a", format!("{{\"id\":{index}}}"))).collect();
        for (name, mut client) in f.clients().await {
            let begun = Instant::now();
            let ids = client.enqueue_all(jobs.clone()).await.unwrap();
            let took = begun.elapsed();
            eprintln!("{name}: 100,000 jobs in {took:?}");
            assert_eq!(ids.len(), 100_000);
            assert!(took < Duration::from_secs(20), "{name}: {took:?}");
        }
        // A claim reads a few index entries, however many jobs wait.
        let worker = worker(f.database()).await;
        let begun = Instant::now();
        for _ in 0..20 {
            assert_eq!(claim(f.database(), worker, 10).await.len(), 10);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}
