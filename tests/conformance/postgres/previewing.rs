//! Previews of actions on all jobs that match.

use diesel_jobs_core::storage::{Action, Count, JobFilter, preview};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Port as _, run};

/// A page of a list ends with the state of which most rows were examined.
#[test]
fn a_preview_shows_a_job_behind_many_newer_ones_of_another_state() {
    run::<Postgres, _>(async |f: Postgres| {
        let operator = &*f.database().operator;
        let old = enqueue(&f, with(|job| job.args = r#"{"n":1}"#.into())).await;
        operator.act(&Action::Discard, &[old], "ann").await.unwrap();
        for _ in 0..6 {
            enqueue_all(&f, vec![job(); 1000]).await;
        }
        let filter: JobFilter = "args.n:1".parse().unwrap();
        let found = preview(operator, &Action::Retry, &filter).await.unwrap();
        assert_eq!(found.count.jobs, 1);
        let sample: Vec<_> = found.sample.iter().map(|job| job.id).collect();
        assert_eq!(sample, [old]);
    });
}

/// A count reads the newest jobs of a state, and the one that matches is older than all of these.
#[test]
fn a_preview_searches_for_a_job_that_was_not_counted() {
    run::<Postgres, _>(async |f: Postgres| {
        let operator = &*f.database().operator;
        let old = enqueue(&f, with(|job| job.args = r#"{"n":1}"#.into())).await;
        for _ in 0..6 {
            enqueue_all(&f, vec![job(); 1000]).await;
        }
        let filter: JobFilter = "args.n:1".parse().unwrap();
        assert_eq!(operator.count(&filter).await.unwrap(), Count { jobs: 0, is_exact: false });
        let mut found = preview(operator, &Action::Cancel, &filter).await.unwrap();
        // A search ends after a second, and this machine may be slow.
        for _ in 0..100 {
            if !found.sample.is_empty() {
                break;
            }
            assert!(!found.count.is_exact, "it does not know");
            found = preview(operator, &Action::Cancel, &filter).await.unwrap();
        }
        let sample: Vec<_> = found.sample.iter().map(|job| job.id).collect();
        assert_eq!((sample, found.count.jobs), (vec![old], 1));
        // Nothing is asked about what does not exist.
        let found = preview(operator, &Action::Retry, &"args.n:1 state:discarded".parse().unwrap()).await.unwrap();
        assert_eq!((found.sample.len(), found.count), (0, Count { jobs: 0, is_exact: true }));
    });
}
