//! Many jobs. `tests/measured` measures how long they take.

use diesel_jobs_core::NewJob;

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

#[test]
fn a_hundred_thousand_jobs_go_in_together_and_are_claimed() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let jobs: Vec<NewJob> = (0..100_000).map(|index| NewJob::raw("a", format!("{{\"id\":{index}}}"))).collect();
        for (name, mut client) in f.clients().await {
            assert_eq!(client.enqueue_all(jobs.clone()).await.unwrap().len(), 100_000, "{name}");
        }
        let worker = worker(f.database()).await;
        for _ in 0..20 {
            assert_eq!(claim(f.database(), worker, 10).await.len(), 10);
        }
    });
}
