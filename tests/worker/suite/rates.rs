//! Rates, with whole workers: all jobs start, and not faster than the rate allows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs::operator::JobFilter;
use diesel_jobs::rules::Rate;
use diesel_jobs::{Job as _, JobContext, JobError, State, job};
use support::{Db, Running, registry};

/// A start of a handler: its account, and the time.
type Start = (i64, DateTime<Utc>);

#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<Start>>>);

impl Starts {
    fn add(&self, account: i64, ctx: &JobContext) {
        self.0.lock().unwrap().push((account, ctx.now()));
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn times(&self) -> Vec<Start> {
        let mut times = self.0.lock().unwrap().clone();
        times.sort_unstable_by_key(|(_, at)| *at);
        times
    }
}

#[job(rate("calls", limit = 500, per = "1s"))]
async fn call(ctx: &JobContext, State(starts): State<Starts>) {
    starts.add(0, ctx);
}

#[job(rate(limit = 1, per = "1h", burst = 2, by(account)), backoff = "fixed(1ms)", max_attempts = 3)]
async fn fetch(ctx: &JobContext, account: i64, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.add(account, ctx);
    if ctx.attempt() == 1 && account == 1 { Err(JobError::msg("once more")) } else { Ok(()) }
}

/// The time of the database, in microseconds.
fn now(db: &Db) -> &'static str {
    match db.is_postgres() {
        true => "select (extract(epoch from now()) * 1000000)::bigint as number",
        false => "select cast(round(unixepoch('subsec') * 1000) as integer) * 1000 as number",
    }
}

async fn four_workers_together_keep_to_the_rate(db: Db) {
    let begun = db.number(now(&db)).await;
    db.conn().await.enqueue_all((0..1050).map(|_| Call)).await;
    let starts = Starts::default();
    let workers: Vec<Running> =
        (0..4).map(|_| Running::start(db.worker(registry![Call]).state(starts.clone()))).collect();
    db.await_number(0, "select count(*) as number from jobs.job where state <> 'completed'").await;
    // Fifty at once, and 500 in each second since the first token. The rate is that of the admissions, whose times the
    // jobs have: starts follow them, and may gather. An admission may follow its token late, and is never before it.
    let jobs = db.database().operator.list_all(&JobFilter::default(), 2000).await.unwrap();
    let mut admitted: Vec<i64> = jobs.into_iter().map(|job| job.run_at.timestamp_micros()).collect();
    admitted.sort_unstable();
    for (number, at) in (1..).zip(&admitted) {
        let time = (at - begun) as f64 / 1e6;
        // SQLite's clock has a resolution of a millisecond.
        assert!(f64::from(number) <= 50.0 + (time + 0.002) * 500.0, "{number} admissions after {time} s");
    }
    assert_eq!((admitted.len(), starts.count()), (1050, 1050));
    for worker in workers {
        worker.stop().await;
    }
}

/// The time of the attempts is what was skipped.
async fn a_retry_waits_for_a_token(db: Db) {
    let (starts, begun) = (Starts::default(), Utc::now());
    for account in [1, 1, 1, 1, 2, 2] {
        db.enqueue(Fetch { account }).await;
    }
    let worker = db.worker(registry![Fetch]).state(starts.clone()).build().unwrap();
    let run = worker.run_until_empty().skip_time(db.database().operator.clone());
    support::within(support::LIMIT * 2, "all to run", run).await.unwrap();
    let mut times = starts.times();
    times.retain(|(account, _)| *account == 1);
    // Eight starts of one key: two at once, and six after it, an hour apart.
    assert_eq!((starts.count(), times.len()), (10, 8));
    for (number, (_, at)) in (-1..).zip(times) {
        let hours = (at - begun).num_minutes() as f64 / 60.0;
        assert!(hours > f64::from(number) - 0.1, "start {number} after {hours} hours");
    }
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
