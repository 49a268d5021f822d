//! SQLite's times are numbers, and SQL may write any.

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Fixture, run};

#[test]
fn the_farthest_time_that_a_column_holds_does_not_keep_stats_from_answering() {
    run::<Sqlite, _>(async |f: Sqlite| {
        enqueue(&f, job()).await;
        let far = format!("update jobs_job set run_at = {}", i64::MIN);
        f.client().await.execute(&far).await.unwrap();
        let stats = f.database().operator.stats().await.unwrap();
        assert_eq!(stats[0].available, 1);
        assert!(stats[0].oldest_wait_seconds.unwrap() > 1e12, "{stats:?}");
    });
}
