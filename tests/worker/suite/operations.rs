//! Operations of operators, whose workers are killed between and within their steps.

use std::time::Duration;

use diesel_jobs::operator::{Action, JobFilter};
use diesel_jobs::{JobState, job};
use support::{Db, LIMIT, Process, until, within};

/// No worker of this test serves its queue.
#[job(queue = "unserved")]
async fn unserved() {}

async fn an_operation_survives_its_workers_and_changes_each_job_once(db: Db) {
    // If this test stands still, the first worker may end the operation before it is killed.
    while operation_with_kills(&db).await == 0 {
        let ended =
            if db.is_postgres() { "delete from jobs.ready; delete from jobs.finished" } else { "delete from jobs.job" };
        db.execute(ended).await;
    }
}

/// Kills the workers of an operation after its first steps. Returns how many it has killed before the operation had
/// ended.
async fn operation_with_kills(db: &Db) -> usize {
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
        Process::worker(env!("CARGO_BIN_EXE_worker-app"), db.url(), ["run", "--queues", "default=1", "--lease", "10s"])
    };
    let mut killed_within = 0;
    loop {
        let mut worker = start();
        let before = progress().await;
        // A worker searches for operations every five seconds. It is killed after its first steps.
        within(LIMIT, "a step", async {
            while progress().await.changed == before.changed && progress().await.finished_at.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let is_done = progress().await.finished_at.is_some();
        if !is_done && killed_within < 3 {
            worker.kill();
            killed_within += 1;
        } else {
            until("the end of the operation", async || progress().await.finished_at).await;
            worker.signal("TERM");
            assert_eq!(worker.ended(LIMIT).code, 0);
            break;
        }
    }
    let record = progress().await;
    assert_eq!((record.changed, &record.problem), (JOBS as i64, &None));
    let again = operator.list_all(&JobFilter::of_state(JobState::Available), 2 * JOBS).await.unwrap();
    assert_eq!(again.len(), JOBS, "each job was enqueued anew once");
    let audit = operator.audit(None, 10).await.unwrap();
    let events: Vec<_> = audit.iter().filter_map(|entry| entry.detail.as_ref()?.get("event").cloned()).collect();
    assert_eq!(events[..2], ["ended", "started"]);
    killed_within
}

support::on_each_database! { an_operation_survives_its_workers_and_changes_each_job_once }
