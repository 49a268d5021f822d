//! The limit for a shutdown: the grace period and one second.

use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

use crate::table::alone_on;

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

async fn unfinished_jobs_are_released_after_the_grace_period(db: Db) {
    let (probe, mut events) = Probe::new();
    let ids = db.conn().await.enqueue_all((0..3).map(|_| Held {})).await;
    let worker = Running::start(db.worker(registry![Held]).state(probe).grace(Duration::from_millis(200)));
    for _ in 0..3 {
        events.expect("started").await;
    }
    let asked = Instant::now();
    assert_eq!(worker.stop().await.released, 3);
    assert!(asked.elapsed() < Duration::from_millis(1200), "grace + 1 s, but it took {:?}", asked.elapsed());
    for id in ids {
        let (job, failures) = db.show(id).await;
        assert_eq!((job.state, job.attempt, failures.len()), (JobState::Available, 0, 0));
    }
}

alone_on! {
    on_postgres by postgres { unfinished_jobs_are_released_after_the_grace_period }
    on_sqlite by sqlite { unfinished_jobs_are_released_after_the_grace_period }
}
