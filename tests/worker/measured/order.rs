//! Order: strict with one worker at concurrency 1, by priority. A long job at the head does not delay the others, and a
//! delayed job starts at its time.

use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use diesel_jobs::{Job as _, JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

use crate::table::{alone, alone_on, print, row};

#[job]
async fn step(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "step");
}

#[job]
async fn long(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "long");
    probe.pass().await;
}

#[test]
fn one_worker_at_concurrency_1_is_a_strict_fifo() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        const JOBS: usize = 500;
        let (probe, mut events) = Probe::new();
        let mut conn = db.conn().await;
        // The first half waits already, the second half is enqueued while the worker runs.
        let mut ids = conn.enqueue_all((0..JOBS / 2).map(|_| Step {})).await;
        let worker = Running::start(db.worker(registry![Step]).state(probe).slots(1));
        for _ in JOBS / 2..JOBS {
            ids.push(conn.enqueue(Step {}).await);
        }
        let mut ran = Vec::new();
        for _ in 0..JOBS {
            ran.push(events.next().await.job);
        }
        let inversions = ran.windows(2).filter(|pair| pair[0] > pair[1]).count();
        print("strict FIFO: one worker, concurrency 1", &[row!["jobs", "out of order"], row![JOBS, inversions]]);
        assert_eq!(ran, ids);
        worker.stop().await;
    });
}

#[test]
fn a_long_job_at_the_head_does_not_delay_the_others() {
    let _alone = alone();
    support::run(Db::postgres(), async |db| {
        let (probe, mut events) = Probe::new();
        let head = db.enqueue(Long {}.priority(100)).await;
        let worker = Running::start(db.worker(registry![Step, Long]).state(probe).slots(2));
        assert_eq!(events.expect("long").await.job, head);
        let asked = Instant::now();
        db.conn().await.enqueue_all((0..200).map(|_| Step {})).await;
        for _ in 0..200 {
            events.expect("step").await;
        }
        let took = asked.elapsed();
        print(
            "a long job at the head, two slots",
            &[row!["jobs behind it", "all done after ms"], row![200, took.as_millis()]],
        );
        // The long job ends only after this. If the others waited for it, they would wait for ever.
        assert!(took < Duration::from_secs(10), "took {took:?}");
        events.open(1);
        assert_eq!(worker.stop().await.completed, 201);
    });
}

/// The poll interval of this worker is far too long to match the time by chance.
async fn a_delayed_job_is_neither_early_nor_late(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Step]).state(probe).poll_interval(Duration::from_secs(20)));
    let now = db.enqueue(Step {}).await;
    assert_eq!(events.next().await.job, now, "the worker is up");
    // Both are enqueued while the worker is idle, the later one first.
    let mut conn = db.conn().await;
    let later = conn.enqueue(Step {}.run_at(Utc::now() + TimeDelta::milliseconds(900))).await;
    let sooner = conn.enqueue(Step {}.delay(Duration::from_millis(500))).await;
    for id in [sooner, later] {
        assert_eq!(events.next().await.job, id);
        let job = db.await_state(id, JobState::Completed).await;
        let (run_at, claimed_at) = (job.run_at, job.claimed_at.unwrap());
        assert!(claimed_at >= run_at, "{claimed_at} is early for {run_at}");
        assert!(claimed_at - run_at < TimeDelta::milliseconds(400), "{claimed_at} is late for {run_at}");
        assert!(run_at - job.enqueued_at > TimeDelta::milliseconds(400), "{run_at} is not the time asked for");
    }
    worker.stop().await;
}

alone_on! {
    on_postgres by postgres { a_delayed_job_is_neither_early_nor_late }
    on_sqlite by sqlite { a_delayed_job_is_neither_early_nor_late }
}
