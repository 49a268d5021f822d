//! Rates, with whole workers: jobs start as fast as the rate allows, and not faster.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diesel_jobs::{Job as _, JobContext, JobError, JobState, Rate, State, job};
use support::{Db, Running, registry};

/// When each handler has started, since the first one.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<Instant>>>);

impl Starts {
    fn times(&self) -> Vec<f64> {
        let all = self.0.lock().unwrap();
        let first = all.iter().min().copied().unwrap();
        let mut times: Vec<f64> = all.iter().map(|at| (*at - first).as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

#[job(rate("calls", limit = 500, per = "1s"))]
async fn call(State(starts): State<Starts>) {
    starts.0.lock().unwrap().push(Instant::now());
}

#[job(rate(limit = 20, per = "1s", burst = 2, by(account)), backoff = "fixed(1ms)", max_attempts = 3)]
async fn fetch(ctx: &JobContext, account: i64, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.0.lock().unwrap().push(Instant::now());
    if ctx.attempt() == 1 && account == 1 { Err(JobError::msg("once more")) } else { Ok(()) }
}

async fn four_workers_together_keep_to_the_rate(db: Db) {
    let starts = Starts::default();
    let mut ids = Vec::new();
    for _ in 0..1050 {
        ids.push(db.enqueue(Call).await);
    }
    let workers: Vec<Running> =
        (0..4).map(|_| Running::start(db.worker(registry![Call]).state(starts.clone()))).collect();
    for id in ids {
        db.await_state(id, JobState::Completed).await;
    }
    let times = starts.times();
    // Fifty at once, and 500 in each second. A start follows its admission a little later, so two starts may be closer to each other.
    for (first, begin) in times.iter().enumerate() {
        for (last, end) in times.iter().enumerate().skip(first) {
            let allowed = 50.0 + (end - begin + 0.1) * 500.0;
            assert!(((last - first) as f64) <= allowed, "{} starts from {begin} s to {end} s", last - first);
        }
    }
    let took = times.last().unwrap();
    assert!((1.8..3.0).contains(took), "{took} s for what the rate allows in 2 s");
    for worker in workers {
        worker.stop().await;
    }
}

async fn a_retry_waits_for_a_token(db: Db) {
    let starts = Starts::default();
    for account in [1, 1, 1, 1, 2, 2] {
        db.enqueue(Fetch { account }).await;
    }
    let worker = db.worker(registry![Fetch]).state(starts.clone()).build().unwrap();
    support::within(support::LIMIT * 2, "all to run", worker.run_until_empty()).await.unwrap();
    let times = starts.times();
    assert_eq!(times.len(), 10);
    // Eight starts of one key: two at once, and six after it, 50 ms apart.
    assert!(*times.last().unwrap() > 0.25, "{times:?}");
}

async fn skipped_time_brings_tokens(db: Db) {
    let starts = Starts::default();
    for _ in 0..4 {
        db.enqueue(Fetch { account: 2 }.rate(Rate::new("slow", 1, Duration::from_secs(3600)))).await;
    }
    let worker = db.worker(registry![Fetch]).state(starts.clone()).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    let stats = support::within(support::LIMIT * 2, "all to run", run).await.unwrap();
    assert_eq!(stats.completed, 4);
}

support::on_each_database! {
    four_workers_together_keep_to_the_rate,
    a_retry_waits_for_a_token,
    skipped_time_brings_tokens,
}
