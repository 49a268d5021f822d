//! A schedule with an interval: its ticks are the multiples of the interval, whoever runs, and each is one job.

use std::time::Duration;

use diesel_jobs::job;
use support::{Db, Running, registry};

#[job(every = "2s", catch_up = "all", queue = "ticks")]
async fn every_two_seconds() {}

const TICKS: &str = "select count(*) as number from jobs.job";

/// How many jobs have another time than the multiples of two seconds, or the time of another job.
fn odd(db: &Db) -> &'static str {
    match db.is_postgres() {
        true => {
            "select count(*) - count(distinct run_at) filter (where extract(epoch from run_at)::numeric % 2 = 0) as number from jobs.job"
        }
        false => {
            "select count(*) - count(distinct case when run_at % 2000000 = 0 then run_at end) as number from jobs.job"
        }
    }
}

async fn two_workers(db: &Db) -> [Running; 2] {
    let start = async || {
        let worker = diesel_jobs::Worker::builder(db.again().await.storage).registry(registry![EveryTwoSeconds]);
        Running::start(worker.poll_interval(Duration::from_millis(50)))
    };
    [start().await, start().await]
}

async fn await_ticks(db: &Db, wanted: i64) {
    support::until("the ticks", async || (db.number(TICKS).await >= wanted).then_some(())).await;
}

async fn restarts_neither_move_nor_repeat_the_ticks_of_an_interval(db: Db) {
    for wanted in [2, 4] {
        let workers = two_workers(&db).await;
        await_ticks(&db, wanted).await;
        for worker in workers {
            worker.stop().await;
        }
    }
    assert_eq!(db.number(odd(&db)).await, 0);
    let hours = if db.is_postgres() { "interval '1 hour'" } else { "3600000000" };
    db.execute(&format!("update jobs.schedule set last_tick = last_tick - {hours}")).await;
    // What was missed in an hour, too, has the times of the multiples. The newest have jobs already.
    db.execute(if db.is_postgres() {
        "delete from jobs.finished; delete from jobs.ready"
    } else {
        "delete from jobs.job"
    })
    .await;
    let workers = two_workers(&db).await;
    await_ticks(&db, 1800).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(db.number(odd(&db)).await, 0);
}

support::on_each_database! {
    restarts_neither_move_nor_repeat_the_ticks_of_an_interval,
}
