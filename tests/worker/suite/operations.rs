//! Operations of operators, whose workers are killed between and within their steps.

use std::time::{Duration, Instant};

use diesel_jobs::storage::{Action, JobFilter};
use diesel_jobs::{JobState, job};
use support::{Db, Process};

/// No worker of this test serves its queue.
#[job(queue = "unserved")]
async fn unserved() {}

async fn an_operation_survives_its_workers_and_changes_each_job_once(db: Db) {
    const JOBS: usize = 6_000;
    let ids = db.conn().await.enqueue_all((0..JOBS).map(|_| Unserved {})).await;
    let operator = db.database().operator.clone();
    for some in ids.chunks(1000) {
        operator.cancel_many(some).await.unwrap();
    }
    let operation =
        operator.start_operation(&Action::Rerun, &JobFilter::of_state(JobState::Cancelled), "ann").await.unwrap();
    let progress = async || operator.operation(operation).await.unwrap().unwrap();
    let start = || {
        Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--queues", "default=1", "--lease", "3s"])
    };
    let (begun, mut killed_within) = (Instant::now(), 0);
    loop {
        let mut worker = start();
        let before = progress().await;
        // A worker searches for operations every five seconds. It is killed after its first steps.
        while progress().await.changed == before.changed && progress().await.finished_at.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(100), "{:?}", progress().await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let is_done = progress().await.finished_at.is_some();
        if !is_done && killed_within < 3 {
            worker.kill();
            killed_within += 1;
        } else {
            support::until("the end of the operation", async || progress().await.finished_at).await;
            worker.signal("TERM");
            assert_eq!(worker.ended(Duration::from_secs(20)).code, 0);
            break;
        }
    }
    assert!(killed_within > 0, "the operation ended before a worker was killed");
    let record = progress().await;
    assert_eq!((record.changed, &record.problem), (JOBS as i64, &None));
    let again = operator.list_all(&JobFilter::of_state(JobState::Available), 2 * JOBS).await.unwrap();
    assert_eq!(again.len(), JOBS, "each job was enqueued anew once");
    let audit = operator.audit(None, 10).await.unwrap();
    let events: Vec<_> = audit.iter().filter_map(|entry| entry.detail.as_ref()?.get("event").cloned()).collect();
    assert_eq!(events, ["ended", "started"]);
}

support::on_each_database! { an_operation_survives_its_workers_and_changes_each_job_once }
