//! A worker that finds job after job is not woken for each of them: the enqueues would wait for one another.

use std::time::{Duration, Instant};

use diesel_jobs::job;
use support::{Db, Running, registry};

#[job]
async fn short() {}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

async fn a_worker_that_polls_busily_asks_not_to_be_woken_and_asks_again_when_it_is_over(db: Db) {
    let mut conn = db.conn().await;
    let worker = Running::start(db.worker(registry![Short]).poll(Duration::from_secs(60)));
    db.await_number(1, IDLE).await;
    let started = Instant::now();
    while conn.number(IDLE).await == 1 {
        assert!(started.elapsed() < Duration::from_secs(20), "it is woken for every job");
        for _ in 0..20 {
            conn.enqueue(Short {}).await;
        }
    }
    db.await_number(1, IDLE).await;
    // The next one wakes it: it would not look by itself for a minute.
    conn.enqueue(Short {}).await;
    db.await_number(0, "select count(*) as number from jobs.job where state <> 'completed'").await;
    worker.stop().await;
}

support::on_postgres! {
    a_worker_that_polls_busily_asks_not_to_be_woken_and_asks_again_when_it_is_over,
}
