//! Two attempts of one job store their outputs at the same moment.

use std::time::Duration;

use diesel_jobs_core::{ClaimedJob, Keep, Lease, Output, Transition};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

/// The statement of the first attempt has read that its lease is valid. Before it writes, the second attempt begins and
/// stores its output.
#[test]
fn an_attempt_never_replaces_the_output_of_a_later_one() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let first = claimed(&f, worker(db).await, job()).await;
        let lease = Lease { number: first.lease.number + 1, ..first.lease };
        let later = ClaimedJob { lease, ..first.clone() };
        let mut second = f.client().await;
        second.begin().await;
        let store = format!("insert into jobs.output values ({}, {}, '\"second\"')", first.lease.job, lease.number);
        second.execute(&store).await.unwrap();
        let late = tokio::spawn({
            let db = f.again().await;
            let returned = Transition::CompleteWith(Keep::For(HOUR), Output::new("first"));
            async move { finish(&db, &first, returned).await }
        });
        let waits = "select count(*) as number from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while f.client().await.number(waits).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let claim = format!("update jobs.running set lease = lease + 1 where id = {}", lease.job);
        second.execute(&claim).await.unwrap();
        second.commit().await;
        assert!(!late.await.unwrap());
        assert!(finish(db, &later, DONE).await);
        let end = db.operator.end(lease.job).await.unwrap().unwrap();
        assert_eq!(end.output.unwrap().json(), Some("\"second\""));
    });
}
