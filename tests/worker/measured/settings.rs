//! The limit for what operators set: it takes effect within a second. The bar is a second more.

use std::time::{Duration, Instant};

use diesel_jobs::{JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry};

use crate::table::{alone_on, print, row};

const BAR: Duration = Duration::from_secs(2);

#[job]
async fn quick() {}

#[job(queue = "holds")]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "runs");
    probe.pass().await;
}

async fn resumes_and_slots_take_effect_within_a_second(db: Db) {
    let operator = db.database().operator.clone();
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Quick, Holds]).state(probe).queue("default", 2).queue("holds", 2);
    let worker = Running::start(worker.poll_interval(Duration::from_secs(60)));
    let mut took = Vec::new();
    for pause_kind in [false, true] {
        match pause_kind {
            true => operator.pause_kind("quick", "ada", None).await.unwrap(),
            false => operator.pause_queue("default", "ada", None).await.unwrap(),
        };
        tokio::time::sleep(BAR).await;
        let waiting = db.enqueue(Quick {}).await;
        tokio::time::sleep(BAR / 2).await;
        assert_eq!(db.record(waiting).await.state, JobState::Available);
        let resumed = Instant::now();
        match pause_kind {
            true => operator.resume_kind("quick", "ada").await.unwrap(),
            false => operator.resume_queue("default", "ada").await.unwrap(),
        };
        db.await_state(waiting, JobState::Completed).await;
        took.push(resumed.elapsed());
    }
    db.conn().await.enqueue_all((0..5).map(|_| Holds {})).await;
    for _ in 0..2 {
        events.expect("runs").await;
    }
    let changed = Instant::now();
    operator.set_slots("holds", Some(5), "ada").await.unwrap();
    for _ in 0..3 {
        events.expect("runs").await;
    }
    took.push(changed.elapsed());
    events.open(5);
    worker.stop().await;
    let ms = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e3);
    print(
        "what operators set, ms until it takes effect",
        &[row!["queue resumed", "kind resumed", "slots"], row![ms(took[0]), ms(took[1]), ms(took[2])]],
    );
    assert!(took.iter().all(|took| *took < BAR), "{took:?}");
}

alone_on! {
    on_postgres by postgres { resumes_and_slots_take_effect_within_a_second }
    on_sqlite by sqlite { resumes_and_slots_take_effect_within_a_second }
}
