//! Limits, with whole workers: no more handlers than the limit run at once, and all jobs end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel_jobs::rules::Limit;
use diesel_jobs::{Job as _, JobContext, JobError, JobState, State, job};
use support::{Db, Running, registry};
use tokio::sync::Notify;

/// How many handlers of each key run, and how many have run at once.
#[derive(Clone, Default)]
struct Overlap(Arc<Mutex<HashMap<i64, (usize, usize)>>>, Arc<Notify>);

impl Overlap {
    fn enter(&self, key: i64) {
        let mut all = self.0.lock().unwrap();
        let (now, most) = all.entry(key).or_default();
        *now += 1;
        *most = (*most).max(*now);
        self.1.notify_waiters();
    }

    /// Waits until two handlers of this key have run at once.
    async fn two(&self, key: i64) {
        loop {
            let entered = self.1.notified();
            if self.0.lock().unwrap()[&key].1 >= 2 {
                return;
            }
            entered.await;
        }
    }

    fn leave(&self, key: i64) {
        self.0.lock().unwrap().get_mut(&key).unwrap().0 -= 1;
    }

    fn most(&self) -> Vec<usize> {
        self.0.lock().unwrap().values().map(|(_, most)| *most).collect()
    }
}

#[job(concurrency(limit = 2, by(account)), backoff = "fixed(1ms)", max_attempts = 3)]
async fn charge(ctx: &JobContext, account: i64, State(overlap): State<Overlap>) -> Result<(), JobError> {
    overlap.enter(account);
    overlap.two(account).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    overlap.leave(account);
    if ctx.attempt() == 1 && ctx.id().0 % 5 == 0 { Err(JobError::msg("once more")) } else { Ok(()) }
}

#[job]
async fn refund(State(overlap): State<Overlap>) {
    overlap.enter(-1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    overlap.leave(-1);
}

async fn no_more_run_at_once_than_the_limit(db: Db) {
    let overlap = Overlap::default();
    let mut ids = Vec::new();
    for number in 0..30 {
        ids.push(db.enqueue(Charge { account: number % 3 }).await);
        ids.push(db.enqueue(Refund.concurrency(Limit::new("bank", 1))).await);
    }
    let other = Running::start(db.worker(registry![Charge, Refund]).state(overlap.clone()));
    let worker = db.worker(registry![Charge, Refund]).state(overlap.clone()).build().unwrap();
    support::within(support::LIMIT * 2, "all to run", worker.run_until_empty()).await.unwrap();
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    let mut most = overlap.most();
    most.sort_unstable();
    assert_eq!((most[0], most[3]), (1, 2), "{most:?}: the limits are reached, and not exceeded");
    other.stop().await;
}

async fn skipped_time_admits_jobs_for_later(db: Db) {
    let overlap = Overlap::default();
    for account in [1, 1, 1, 1] {
        db.enqueue(Charge { account }.delay(Duration::from_secs(3600))).await;
    }
    let worker = db.worker(registry![Charge]).state(overlap.clone()).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    let stats = support::within(support::LIMIT * 2, "all to run", run).await.unwrap();
    assert_eq!(stats.completed, 4);
    assert!(overlap.most()[0] <= 2, "{:?}", overlap.most());
}

async fn a_paused_job_with_a_limit_is_left_by_a_worker_that_runs_until_nothing_is_left(db: Db) {
    let operator = db.database().operator.clone();
    operator.pause_queue("default", "ann", None).await.unwrap();
    let id = db.enqueue(Charge { account: 1 }).await;
    let worker = db.worker(registry![Charge]).state(Overlap::default()).build().unwrap();
    support::within(support::LIMIT, "the worker to end", worker.run_until_empty()).await.unwrap();
    assert_eq!(db.record(id).await.state, JobState::Held);
}

support::on_each_database! {
    no_more_run_at_once_than_the_limit,
    skipped_time_admits_jobs_for_later,
    a_paused_job_with_a_limit_is_left_by_a_worker_that_runs_until_nothing_is_left,
}
