//! Previews of actions on all jobs that match.

use diesel_jobs_core::storage::{Action, JobFilter};

use super::Postgres;
use crate::bench::*;
use crate::fixture::{Port as _, run};

/// A page of a list ends with the state of which most rows were examined.
#[test]
fn a_preview_shows_a_job_behind_many_newer_ones_of_another_state() {
    run::<Postgres, _>(async |f: Postgres| {
        let operator = &f.database().operator;
        let old = enqueue(&f, with(|job| job.args = r#"{"n":1}"#.into())).await;
        operator.act(&Action::Discard, &[old], "ann").await.unwrap();
        for _ in 0..6 {
            enqueue_all(&f, vec![job(); 1000]).await;
        }
        let filter: JobFilter = "args.n:1".parse().unwrap();
        let preview = operator.preview(&Action::Retry, &filter).await.unwrap();
        assert_eq!(preview.count.jobs, 1);
        let sample: Vec<_> = preview.sample.iter().map(|job| job.id).collect();
        assert_eq!(sample, [old]);
    });
}
