//! Jobs that expire on PostgreSQL: the enqueue in SQL.

use std::time::Duration;

use chrono::TimeDelta;

use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};
use crate::limiting::admit;

use super::Postgres;

#[test]
fn sql_enqueues_jobs_that_expire() {
    run::<Postgres, _>(async |f: Postgres| {
        let db = f.database();
        let worker = worker(db).await;
        let mut client = f.client().await;
        for arguments in [
            "tags => '{x, \"y z\"}', max_attempts => 3, priority => 5",
            "concurrency => 1",
            "rate => 9, per => '1 second'",
            "sequence => 'halt'",
            "unique_by => '{n}'",
            "unique_by => '{n}', unique_within => '1 hour', concurrency => 1, limit_name => 'x'",
        ] {
            let enqueue = format!("select jobs.enqueue('a', '{{\"n\": 7}}', {arguments}, expires => '10 minutes')");
            client.execute(&enqueue).await.unwrap();
            if arguments.contains("unique") {
                client.execute(&enqueue).await.unwrap();
            }
            admit(db).await;
            let jobs = claim(db, worker, 9).await;
            assert_eq!(jobs.len(), 1, "{arguments}");
            assert!(close(jobs[0].start_by.unwrap(), now(db).await + TimeDelta::seconds(600)), "{arguments}");
            if arguments.contains("tags") {
                assert_eq!((jobs[0].max_attempts, jobs[0].priority), (3, 5));
                assert_eq!(record(db, jobs[0].lease.job).await.tags, ["x", "y z"]);
            }
            assert!(finish(db, &jobs[0], DONE).await, "{arguments}");
        }
        client
            .execute("select jobs.enqueue('a', run_at => now() + interval '1 hour', expires => '10 minutes')")
            .await
            .unwrap();
        let minutes = "select (extract(epoch from start_by - now()) / 60)::bigint as number from jobs.expiry";
        assert_eq!(client.number(minutes).await, 70);
    });
}

#[test]
fn sql_refuses_times_that_cannot_be() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut client = f.client().await;
        for time in ["0 seconds", "-1 hour", "101 years"] {
            let enqueue = format!("select jobs.enqueue('a', expires => '{time}')");
            let refused = client.execute(&enqueue).await.unwrap_err().to_string();
            assert!(refused.contains("`expires` of job a must be from a millisecond to a hundred years"), "{refused}");
        }
        for (time, is_allowed) in [(Duration::ZERO, false), (Duration::from_millis(1), true), (Duration::MAX, false)] {
            let enqueued = client.enqueue(with(|job| job.expires = Some(time))).await;
            assert_eq!(enqueued.is_ok(), is_allowed, "{time:?}");
        }
    });
}
