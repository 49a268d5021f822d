//! The progress that handlers report.

use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{JobId, Lease, Progress, ProgressReport};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;

fn report(lease: Lease, done: u64, message: &str) -> ProgressReport {
    ProgressReport { lease, done, total: 10, message: message.to_owned() }
}

async fn store(db: &Database, lease: Lease, done: u64, message: &str) -> StorageResult<()> {
    db.storage.store_progress(&[report(lease, done, message)]).await
}

/// What is stored: how much is done, of how much, and in words.
async fn stored(db: &Database, id: JobId) -> Option<(u64, u64, String)> {
    let progress = db.operator.progress(id).await.unwrap();
    progress.map(|Progress { done, total, message, .. }| (done, total, message))
}

fn of_ten(done: u64, message: &str) -> Option<(u64, u64, String)> {
    Some((done, 10, message.to_owned()))
}

pub(crate) async fn the_newest_report_is_kept_over_the_attempts<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let running = claimed(&f, worker, job()).await;
    let first = running.lease;
    assert_eq!(stored(db, first.job).await, None);
    let begun = record(db, first.job).await.claimed_at.unwrap();
    store(db, first, 3, "a\u{1F600}'\"").await.unwrap();
    assert_eq!(stored(db, first.job).await, of_ten(3, "a\u{1F600}'\""));
    assert!(db.operator.progress(first.job).await.unwrap().unwrap().at >= begun);
    store(db, first, 4, "").await.unwrap();
    assert!(finish(db, &running, retry_in(std::time::Duration::ZERO)).await);
    assert_eq!(stored(db, first.job).await, of_ten(4, ""));
    store(db, first, 5, "late, and not claimed again").await.unwrap();
    let running = claim(db, worker, 1).await.remove(0);
    let second = running.lease;
    assert_eq!(stored(db, first.job).await, of_ten(5, "late, and not claimed again"));
    store(db, first, 9, "of an attempt that has ended").await.unwrap();
    assert_eq!(stored(db, first.job).await, of_ten(5, "late, and not claimed again"));
    store(db, second, 1, "again").await.unwrap();
    assert!(finish(db, &running, DONE).await);
    assert_eq!(stored(db, first.job).await, of_ten(1, "again"));
    store(db, second, 10, "done").await.unwrap();
    assert_eq!(stored(db, first.job).await, of_ten(10, "done"));
    assert_eq!(db.operator.end(first.job).await.unwrap().unwrap().output, None, "progress is no output");
}

pub(crate) async fn many_reports_are_stored_at_once_and_jobs_that_are_gone_left_out<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 1200]).await;
    let jobs = claim(db, worker, 1200).await;
    let mut reports: Vec<_> = jobs.iter().rev().map(|job| report(job.lease, u64::MAX, "x")).collect();
    reports.push(report(Lease { job: JobId(1_000_000), ..jobs[0].lease }, 1, "gone"));
    db.storage.store_progress(&reports).await.unwrap();
    db.storage.store_progress(&[]).await.unwrap();
    for job in [&jobs[0], &jobs[1199]] {
        assert_eq!(stored(db, job.lease.job).await, of_ten(u64::try_from(i64::MAX).unwrap(), "x"));
    }
    let rows = f.client().await.number(&format!("select count(*) as number from {}", F::table("output"))).await;
    assert_eq!(rows, 1200);
}

pub(crate) async fn progress_and_output_stand_beside_each_other_and_go_with_the_job<F: Fixture>(f: F) {
    use diesel_jobs_core::{Keep, Output, Transition};
    let db = f.database();
    let worker = worker(db).await;
    let lost = claimed(&f, worker, job()).await;
    let output = |keep| Transition::CompleteWith(keep, Output::new("x"));
    store(db, lost.lease, 3, "x").await.unwrap();
    assert!(finish(db, &lost, output(Keep::For(std::time::Duration::ZERO))).await);
    assert_eq!(db.operator.end(lost.lease.job).await.unwrap().unwrap().output, Some(Output::new("x")));
    assert_eq!(stored(db, lost.lease.job).await, of_ten(3, "x"));
    let not_kept = claimed(&f, worker, job()).await;
    store(db, not_kept.lease, 3, "x").await.unwrap();
    assert!(finish(db, &not_kept, Transition::Complete(Keep::Nothing)).await);
    store(db, not_kept.lease, 4, "x").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(db.storage.prune(10).await.unwrap(), 1);
    db.storage.prune(10).await.unwrap();
    let rows = f.client().await.number(&format!("select count(*) as number from {}", F::table("output"))).await;
    assert_eq!(rows, 0);
}
