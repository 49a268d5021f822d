//! Rates, with whole workers: jobs start as fast as the rate allows, and not faster.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diesel_jobs::storage::JobFilter;
use diesel_jobs::{Job as _, JobContext, JobError, Rate, State, job};
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
    db.conn().await.enqueue_all((0..1050).map(|_| Call)).await;
    let workers: Vec<Running> =
        (0..4).map(|_| Running::start(db.worker(registry![Call]).state(starts.clone()))).collect();
    let left = "select count(*) as number from jobs.job where state <> 'completed'";
    support::within(support::LIMIT * 4, "all to run", async {
        while db.number(left).await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    // Fifty at once, and 500 in each second. The rate is that of the admissions, whose times the jobs have: starts follow them, and may gather.
    // The time is that of the move, and a pass takes the tokens a moment before.
    let jobs = db.database().operator.list_all(&JobFilter::default(), 2000).await.unwrap();
    let mut admitted: Vec<_> = jobs.into_iter().map(|job| job.run_at).collect();
    admitted.sort_unstable();
    let times: Vec<f64> = admitted.iter().map(|at| (*at - admitted[0]).as_seconds_f64()).collect();
    for (first, begin) in times.iter().enumerate() {
        for (last, end) in times.iter().enumerate().skip(first) {
            let allowed = 50.0 + (end - begin + 0.1) * 500.0;
            assert!(((last - first) as f64) <= allowed, "{} admissions from {begin} s to {end} s", last - first);
        }
    }
    let times = starts.times();
    let took = times.last().unwrap();
    // A busy machine starts them later.
    assert!((1.8..8.0).contains(took) && times.len() == 1050, "{took} s for what the rate allows in 2 s");
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
    // Eight starts of one key: two at once, and six after it, 50 ms apart. On a busy machine the first ones follow their admission late.
    assert!(*times.last().unwrap() > 0.15, "{times:?}");
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
