//! A worker that finds jobs continuously is not notified of each of them. Otherwise the enqueues would wait for one
//! another.

use std::time::{Duration, Instant};

use diesel_jobs::job;
use support::{Db, Running, registry};

use crate::table::alone_on;

#[job]
async fn short() {}

const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// A worker busy-polls if it finds jobs a hundred times a second. A machine that is busy with other things does not
/// enqueue them so fast.
async fn busy_polling_clears_the_idle_flag_and_its_end_sets_it_again(db: Db) {
    let mut conn = db.conn().await;
    let worker = Running::start(db.worker(registry![Short]).poll_interval(Duration::from_secs(60)));
    db.await_number(1, IDLE).await;
    let started = Instant::now();
    while conn.number(IDLE).await == 1 {
        assert!(started.elapsed() < Duration::from_secs(20), "it is woken for every job");
        for _ in 0..20 {
            conn.enqueue(Short {}).await;
        }
    }
    db.await_number(1, IDLE).await;
    // The next job wakes the worker. Without a notification it would not search for a minute.
    conn.enqueue(Short {}).await;
    db.await_number(0, "select count(*) as number from jobs.job where state <> 'completed'").await;
    worker.stop().await;
}

alone_on! { on_postgres by postgres { busy_polling_clears_the_idle_flag_and_its_end_sets_it_again } }
