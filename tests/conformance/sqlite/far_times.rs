//! SQLite stores times as numbers, and SQL may write any number.

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

#[test]
fn stats_work_with_the_smallest_time_that_a_column_holds() {
    run::<Sqlite, _>(async |f: Sqlite| {
        enqueue(&f, job()).await;
        let far = format!("update jobs_job set run_at = {}", i64::MIN);
        f.client().await.execute(&far).await.unwrap();
        let stats = f.database().operator.stats().await.unwrap().kinds;
        assert_eq!(stats[0].available, 1);
        assert!(stats[0].oldest_wait_seconds.unwrap() > 1e12, "{stats:?}");
    });
}
