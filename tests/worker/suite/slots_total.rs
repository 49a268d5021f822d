//! The limit of the slots of all queues of a worker together.

use std::collections::BTreeMap;
use std::time::Duration;

use diesel_jobs::{Job as _, JobContext, State, job};
use support::{Db, Events, Probe, Running, registry};

const TOTAL: usize = 6;

/// Says the name of its queue, and waits at the gate.
#[job]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, ctx.queue());
    probe.pass().await;
}

/// Says the name of its queue, and waits at the gate on a thread.
#[job]
fn holds_a_thread(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, ctx.queue());
    probe.pass_blocking();
}

/// Receives as many starts.
async fn started(events: &mut Events, jobs: usize) -> BTreeMap<String, usize> {
    let mut started = BTreeMap::new();
    for _ in 0..jobs {
        *started.entry(events.next().await.text).or_default() += 1;
    }
    started
}

/// The gate lets through as many jobs as the test says, so the numbers do not depend on the speed of the machine.
async fn no_more_jobs_run_than_there_are_slots_in_all(db: Db) {
    const QUEUES: usize = 10;
    const EACH: usize = 12;
    let (probe, mut events) = Probe::new();
    let names: Vec<String> = (0..QUEUES).map(|queue| format!("q{queue}")).collect();
    let mut conn = db.conn().await;
    conn.enqueue_all((0..QUEUES * EACH / 2).map(|job| Holds {}.queue(names[job % QUEUES].clone()))).await;
    conn.enqueue_all((0..QUEUES * EACH / 2).map(|job| HoldsAThread {}.queue(names[job % QUEUES].clone()))).await;
    let mut worker = db.worker(registry![Holds, HoldsAThread]).state(probe).slots_total(TOTAL);
    for name in &names {
        worker = worker.queue(name, 16);
    }
    let worker = Running::start(worker);
    started(&mut events, TOTAL).await;
    let mut left = QUEUES * EACH - TOTAL;
    while left > 0 {
        // A job that ends makes room for one, and all others still wait at the gate.
        let running: usize = worker.handle().queues().iter().map(|load| load.running).sum();
        assert!(running <= TOTAL, "{running} run");
        assert_eq!(events.rest().len(), 0, "a job has started without a slot");
        let next = left.min(TOTAL - 1);
        events.open(next);
        started(&mut events, next).await;
        left -= next;
    }
    events.open(TOTAL);
    assert_eq!(worker.stop().await.completed, (QUEUES * EACH) as u64);
}

/// One queue has jobs without end, as far as the others can see.
async fn queues_take_turns_for_the_slots_of_all(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.enqueue_all((0..100).map(|_| Holds {}.queue("a-long"))).await;
    conn.enqueue_all((0..4).map(|_| Holds {}.queue("b"))).await;
    conn.enqueue_all((0..4).map(|_| Holds {}.queue("z"))).await;
    let worker = db.worker(registry![Holds]).state(probe).slots_total(1);
    let worker = Running::start(worker.queue("a-long", 16).queue("b", 16).queue("z", 16));
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(events.next().await.text);
        events.open(1);
    }
    for queue in ["a-long", "b", "z"] {
        let turns = seen.iter().filter(|seen| *seen == queue).count();
        assert_eq!(turns, 4, "of 12 slots, in {seen:?}");
    }
    drop(events);
    worker.stop().await;
}

async fn each_queue_keeps_its_own_maximum(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.enqueue_all((0..10).map(|_| Holds {}.queue("narrow"))).await;
    conn.enqueue_all((0..10).map(|_| Holds {}.queue("wide"))).await;
    let worker = db.worker(registry![Holds]).state(probe).slots_total(TOTAL).queue("narrow", 2).queue("wide", 16);
    let worker = Running::start(worker);
    let first = started(&mut events, TOTAL).await;
    assert_eq!((first["narrow"], first["wide"]), (2, 4));
    events.open(20);
    started(&mut events, 14).await;
    assert_eq!(worker.stop().await.completed, 20);
}

/// More queues than one claim names, all of them found at run time.
async fn many_queues_of_a_pattern_share_the_slots(db: Db) {
    const QUEUES: usize = 90;
    let (probe, mut events) = Probe::new();
    let into = |queue: usize| Holds {}.queue(format!("tenant-{queue:02}"));
    let mut conn = db.conn().await;
    conn.enqueue_all((0..QUEUES).map(into)).await;
    conn.enqueue_all((0..300).map(|_| into(0))).await;
    let worker = db.worker(registry![Holds]).state(probe).slots_total(TOTAL).queue("tenant-*", 3);
    let worker = Running::start(worker);
    // In each round of the queues, the first of them gets three slots at most.
    let mut seen = BTreeMap::new();
    while seen.len() < QUEUES {
        let event = events.next().await;
        *seen.entry(event.text).or_insert(0) += 1;
        events.open(1);
    }
    assert!(seen["tenant-00"] <= 3 * TOTAL, "others have waited: {seen:?}");
    drop(events);
    worker.stop().await;
}

/// More queues than one claim names have jobs that nobody may claim yet.
async fn queues_without_a_due_job_hide_no_other(db: Db) {
    const QUEUES: usize = 70;
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    let hour = Duration::from_secs(3600);
    conn.enqueue_all((0..QUEUES).map(|queue| Holds {}.queue(format!("tenant-{queue:02}")).delay(hour))).await;
    let worker = db.worker(registry![Holds]).state(probe).slots_total(1).queue("*", 1);
    let worker = Running::start(worker);
    for _ in 0..3 {
        conn.enqueue_all([Holds {}.queue("z")]).await;
        assert_eq!(events.next().await.text, "z");
        events.open(1);
    }
    worker.stop().await;
}

async fn numbers_that_cannot_be_meant_are_refused(db: Db) {
    for slots in [0, 100_001] {
        let refused =
            db.worker(registry![Holds]).state(Probe::new().0).slots_total(slots).build().unwrap_err().to_string();
        assert!(refused.contains("from 1 to 100000 slots in all"), "{refused}");
    }
}

support::on_each_database! {
    no_more_jobs_run_than_there_are_slots_in_all,
    queues_take_turns_for_the_slots_of_all,
    each_queue_keeps_its_own_maximum,
    many_queues_of_a_pattern_share_the_slots,
    queues_without_a_due_job_hide_no_other,
    numbers_that_cannot_be_meant_are_refused,
}
