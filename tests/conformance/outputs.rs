//! What handlers return is stored with their jobs.

use std::time::Duration;

use diesel_jobs_core::storage::Transacted;
use diesel_jobs_core::{ClaimedJob, Finish, JobId, JobState, Keep, Lease, Output, Transition, WaitError};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::{Act, Fixture};
use crate::transacting::{committed, transaction};

fn with_output(value: &str) -> Transition {
    Transition::CompleteWith(Keep::For(HOUR), Output::new(value))
}

async fn output(db: &Database, id: JobId) -> Option<Output> {
    db.operator.end(id).await.unwrap().expect("the job is there").output
}

async fn stored<F: Fixture>(f: &F) -> i64 {
    f.client().await.number(&format!("select count(*) as number from {}", F::table("output"))).await
}

pub(crate) async fn an_output_is_read_as_it_was_stored<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut batch = Vec::new();
    let values = ["a\0b\u{1F600}'\\\"", "", "x"].map(str::to_owned);
    for value in &values {
        let job = claimed(&f, worker, job()).await;
        batch.push(Finish::new(&job, with_output(value)));
    }
    let [without, failed] = [claimed(&f, worker, job()).await, claimed(&f, worker, job()).await];
    batch.push(Finish::new(&without, DONE));
    batch.push(Finish::new(&failed, discard()));
    assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), 5);
    for (finish, value) in batch.iter().zip(values) {
        let output = output(db, finish.lease.job).await.unwrap();
        assert_eq!(output.read::<String>().unwrap(), Some(value));
        assert_eq!(state(db, finish.lease.job).await, JobState::Completed);
    }
    assert_eq!(output(db, without.lease.job).await, None);
    assert_eq!(output(db, failed.lease.job).await, None);
    assert_eq!(stored(&f).await, 3);
    assert!(db.operator.end(JobId(1_000_000)).await.unwrap().is_none());
}

pub(crate) async fn an_output_that_is_too_large_leaves_a_note<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let fits = claimed(&f, worker, job()).await;
    let larger = claimed(&f, worker, job()).await;
    let text = "x".repeat(256 * 1024 - 2);
    assert!(finish(db, &fits, with_output(&text)).await);
    assert!(finish(db, &larger, with_output(&format!("{text}x"))).await);
    assert_eq!(output(db, fits.lease.job).await.unwrap().read::<String>().unwrap(), Some(text));
    let note = "the output takes 262145 bytes of JSON, at most 262144 are stored";
    assert_eq!(output(db, larger.lease.job).await.unwrap().note(), Some(note));
    assert_eq!(state(db, larger.lease.job).await, JobState::Completed);
}

/// Forty outputs of the largest size take several statements.
pub(crate) async fn a_batch_of_large_outputs_is_stored<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 40]).await;
    let text = "x".repeat(256 * 1024 - 2);
    let finish = |job: &ClaimedJob| Finish::new(job, with_output(&text));
    let batch: Vec<Finish> = claim(db, worker, 40).await.iter().map(finish).collect();
    assert_eq!(db.storage.finish_all(&batch).await.unwrap().len(), 40);
    assert_eq!(stored(&f).await, 40);
    assert_eq!(output(db, batch[39].lease.job).await.unwrap().json().map(str::len), Some(256 * 1024));
}

/// The worker died between the output and the finish, or its finish was refused. Only the output of the attempt that
/// completed the job is returned.
pub(crate) async fn only_the_output_of_the_attempt_that_completed_counts<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let table = F::table("output");
    let left_by = |ClaimedJob { lease, .. }: &ClaimedJob| {
        format!("insert into {table} (job_id, lease, value) values ({}, {}, '\"early\"')", lease.job, lease.number)
    };
    for (ends, expected) in [(with_output("late"), Some("\"late\"")), (DONE, None), (discard(), None), (cancel(), None)]
    {
        let first = claimed(&f, worker, job()).await;
        f.client().await.execute(&left_by(&first)).await.unwrap();
        assert_eq!(output(db, first.lease.job).await, None, "it has not ended");
        assert!(finish(db, &first, retry_in(Duration::ZERO)).await);
        let last = claim(db, worker, 1).await.remove(0);
        assert!(finish(db, &last, ends.clone()).await);
        let output = output(db, first.lease.job).await;
        assert_eq!(output.as_ref().and_then(Output::json), expected, "{ends:?}");
    }
    for ends in [discard(), cancel()] {
        let only = claimed(&f, worker, job()).await;
        f.client().await.execute(&left_by(&only)).await.unwrap();
        assert!(finish(db, &only, ends).await);
        assert_eq!(output(db, only.lease.job).await, None, "it did not complete");
    }
}

pub(crate) async fn a_lost_lease_stores_nothing<F: Fixture>(f: F) {
    let db = f.database();
    let (one, other) = (worker(db).await, worker(db).await);
    let old = claimed(&f, one, job()).await;
    assert!(finish(db, &old, Transition::Release).await);
    let new = claim(db, other, 1).await.remove(0);
    for lease in [old.lease, Lease { worker: one, ..new.lease }, Lease { number: new.lease.number + 1, ..new.lease }] {
        assert!(!finish(db, &ClaimedJob { lease, ..new.clone() }, with_output("lost")).await);
    }
    assert_eq!(stored(&f).await, 0);
    assert!(finish(db, &new, with_output("kept")).await);
    assert!(!finish(db, &old, with_output("lost")).await);
    assert!(!finish(db, &new, with_output("repeated")).await);
    assert_eq!(output(db, new.lease.job).await.unwrap().json(), Some("\"kept\""));
}

pub(crate) async fn a_transaction_stores_its_output_with_its_commit<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for provided in F::provided() {
        let job = claimed(&f, worker, job()).await;
        let act = Act::new(provided.0, Ok(with_output("committed")));
        let ended = db.storage.transact(transaction(&provided, &job, act)).await;
        assert!(committed!(ended, Transition::CompleteWith(..)), "{}: {ended:?}", provided.0);
        assert_eq!(output(db, job.lease.job).await.unwrap().json(), Some("\"committed\""));
        let before = stored(&f).await;
        let mut lost = claimed(&f, worker, crate::bench::job()).await;
        lost.lease.number += 1;
        let act = Act::new(provided.0, Ok(with_output("rolled back")));
        let ended = db.storage.transact(transaction(&provided, &lost, act)).await;
        assert!(matches!(ended, Transacted::LeaseLost), "{ended:?}");
        assert_eq!((effects(&f, provided.0).await, stored(&f).await), (1, before));
    }
}

pub(crate) async fn an_output_goes_with_its_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let expired = Transition::CompleteWith(Keep::For(Duration::ZERO), Output::new("x"));
    let pruned = claimed(&f, worker, job()).await;
    assert!(finish(db, &pruned, expired).await);
    let kept = claimed(&f, worker, job()).await;
    assert!(finish(db, &kept, with_output("kept")).await);
    let deleted = claimed(&f, worker, job()).await;
    assert!(finish(db, &deleted, with_output("deleted")).await);
    assert_eq!(stored(&f).await, 3);
    // A person or an older program deletes only the row of the job.
    let table = F::table(if F::TABLES.contains(&"finished") { "finished" } else { "job" });
    f.client().await.execute(&format!("delete from {table} where id = {}", deleted.lease.job)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.storage.prune(100).await.unwrap(), 1);
    assert_eq!(stored(&f).await, 1);
    assert_eq!(output(db, kept.lease.job).await.unwrap().json(), Some("\"kept\""));
}

/// A worker may claim the job while the prune runs, and replace the output.
pub(crate) async fn a_prune_leaves_the_output_of_a_job_that_waits<F: Fixture>(f: F) {
    let db = f.database();
    let first = claimed(&f, worker(db).await, job()).await;
    let table = F::table("output");
    let left = format!(
        "insert into {table} (job_id, lease, value) values ({}, {}, '\"early\"')",
        first.lease.job, first.lease.number
    );
    f.client().await.execute(&left).await.unwrap();
    assert!(finish(db, &first, retry_in(HOUR)).await);
    assert_eq!(db.storage.prune(100).await.unwrap(), 0);
    assert_eq!(stored(&f).await, 1);
}

pub(crate) async fn a_job_that_is_not_kept_has_no_output<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let gone = claimed(&f, worker, job()).await;
    assert!(finish(db, &gone, Transition::CompleteWith(Keep::Nothing, Output::new("x"))).await);
    assert!(show(db, gone.lease.job).await.is_none());
    assert_eq!(stored(&f).await, 0);
}

pub(crate) async fn a_wait_ends_with_the_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    let id = job.lease.job;
    let error = db.wait(id, Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { state: JobState::Running, .. }), "{error}");
    assert_eq!(error.to_string(), format!("job {id} is running after 300ms"));
    let waiting = tokio::spawn({
        let db = f.again().await;
        async move { db.wait(id, HOUR).await }
    });
    assert!(finish(db, &job, with_output("done")).await);
    let end = waiting.await.unwrap().unwrap();
    assert_eq!((end.state, end.error), (JobState::Completed, None));
    assert_eq!(end.output.unwrap().json(), Some("\"done\""));
    let failed = claimed(&f, worker, crate::bench::job()).await;
    assert!(finish(db, &failed, discard()).await);
    let end = db.wait(failed.lease.job, HOUR).await.unwrap();
    assert_eq!((end.state, end.error.as_deref()), (JobState::Discarded, Some("it never works")));
    let error = db.wait(JobId(1_000_000), HOUR).await.unwrap_err();
    assert!(error.to_string().starts_with("there is no job 1000000: it was pruned"), "{error}");
}
