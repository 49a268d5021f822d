//! The limit for rates: jobs start as fast as the rate allows.

use std::time::{Duration, Instant};

use diesel_jobs::job;
use support::{Db, Running, registry};

use crate::table::{alone_on, print, row};

const JOBS: i64 = 1050;

#[job(rate("calls", limit = 500, per = "1s"))]
async fn call() {}

/// Fifty jobs may start at once, so the rate allows them in two seconds.
async fn four_workers_together_use_up_the_rate(db: Db) {
    db.conn().await.enqueue_all((0..JOBS).map(|_| Call)).await;
    let begun = Instant::now();
    let workers: Vec<Running> = (0..4).map(|_| Running::start(db.worker(registry![Call]))).collect();
    db.await_number(JOBS, "select count(*) as number from jobs.job where state = 'completed'").await;
    let took = begun.elapsed();
    for worker in workers {
        worker.stop().await;
    }
    let seconds = format!("{:.2}", took.as_secs_f64());
    print(
        "1,050 jobs with a rate of 500/s, four workers",
        &[row!["seconds", "the rate allows"], row![seconds, "2.00"]],
    );
    assert!(took < Duration::from_secs(8), "{took:?}");
}

alone_on! {
    on_postgres by postgres { four_workers_together_use_up_the_rate }
    on_sqlite by sqlite { four_workers_together_use_up_the_rate }
}
