//! Queues that appear while a worker runs, which it serves by a pattern such as `tenant-*`.

use std::collections::BTreeMap;
use std::time::Duration;

use diesel_jobs::operator::Reason;
use diesel_jobs::worker::WorkerHandle;
use diesel_jobs::{Job as _, JobContext, JobState, State, job};
use support::{Db, Probe, Running, registry, until};

/// No worker polls so seldom that a test could wait for it.
const NEVER: Duration = Duration::from_secs(3600);

/// Says the name of its queue.
#[job]
async fn tells(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, ctx.queue());
}

/// Says the name of its queue, and waits at the gate.
#[job]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, ctx.queue());
    probe.pass().await;
}

/// A job with a limit, so it is held at first.
#[job(concurrency(limit = 1))]
async fn limited() {}

/// The slots of each queue that the worker knows.
fn slots(worker: &WorkerHandle) -> BTreeMap<String, usize> {
    worker.queues().into_iter().map(|load| (load.queue, load.slots)).collect()
}

/// First it knows no queue at all.
async fn an_idle_worker_finds_a_job_in_a_new_queue(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Tells]).state(probe).serve("tenant-*");
    let worker = Running::start(worker.poll_interval(NEVER));
    until("the start", async || worker.handle().has_started().then_some(())).await;
    for queue in ["tenant-7", "tenant-8", "tenant-"] {
        db.enqueue(Tells {}.queue(queue)).await;
        events.expect(queue).await;
    }
    worker.stop().await;
}

/// It looks for queues although it is never idle, and so gets no notification.
async fn a_busy_worker_finds_new_queues(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Tells, Holds]).state(probe).queue("mail", 1).queue("tenant-*", 1);
    let worker = Running::start(worker.poll_interval(NEVER));
    db.enqueue(Holds {}.queue("mail")).await;
    events.expect("mail").await;
    // As if all notifications were lost.
    if db.is_postgres() {
        db.execute("update jobs.worker set queue_filter = default, queues = '{}'").await;
    }
    db.enqueue(Tells {}.queue("tenant-7")).await;
    events.expect("tenant-7").await;
    events.open(1);
    worker.stop().await;
}

async fn jobs_that_have_waited_for_long_are_found_in_a_new_queue(db: Db) {
    let (probe, mut events) = Probe::new();
    let worker = Running::start(db.worker(registry![Tells]).state(probe).serve("*").poll_interval(NEVER));
    until("the start", async || worker.handle().has_started().then_some(())).await;
    // The claims of a queue begin near the present. These jobs are far below, and of several priorities.
    let (ready, hour) = match db.is_postgres() {
        true => ("jobs.ready", "interval '1 hour'"),
        false => ("jobs_job", "3600000000"),
    };
    let mut conn = db.conn().await;
    conn.execute("begin").await;
    for priority in [-5, 0, 7] {
        conn.enqueue(Tells {}.queue("old").priority(priority)).await;
    }
    conn.execute(&format!("update {ready} set run_at = run_at - {hour}")).await;
    conn.execute("commit").await;
    for _ in 0..3 {
        events.expect("old").await;
    }
    worker.stop().await;
}

async fn the_most_specific_name_gives_each_queue_its_slots(db: Db) {
    let (probe, mut events) = Probe::new();
    let operator = db.database().operator.clone();
    operator.set_slots("tenant-9", Some(7), "ada").await.unwrap();
    let worker = db.worker(registry![Tells]).state(probe).slots(5);
    let worker = worker.queue("mail", 8).queue("tenant-*", 4).serve("tenant-*-slow").queue("*", 2);
    let worker = Running::start(worker);
    let queues = ["mail", "tenant-7", "tenant-7-slow", "tenant-9", "other"];
    for queue in queues {
        db.enqueue(Tells {}.queue(queue)).await;
        events.expect(queue).await;
    }
    let expected = [("mail", 8), ("other", 2), ("tenant-7", 4), ("tenant-7-slow", 5), ("tenant-9", 7)];
    assert_eq!(slots(worker.handle()), expected.map(|(queue, slots)| (queue.to_owned(), slots)).into());
    // What an operator sets holds for a queue that was found, too.
    operator.set_slots("other", Some(1), "ada").await.unwrap();
    operator.set_slots("tenant-9", None, "ada").await.unwrap();
    let followed = async || {
        let slots = slots(worker.handle());
        (slots["other"] == 1 && slots["tenant-9"] == 4).then_some(())
    };
    until("the slots to change", followed).await;
    worker.stop().await;
}

async fn a_paused_queue_is_found_and_waits(db: Db) {
    let (probe, mut events) = Probe::new();
    let operator = db.database().operator.clone();
    operator.pause_queue("tenant-7", "ada", None).await.unwrap();
    let waiting = db.enqueue(Tells {}.queue("tenant-7")).await;
    let worker = Running::start(db.worker(registry![Tells]).state(probe).serve("tenant-*"));
    db.enqueue(Tells {}.queue("tenant-8")).await;
    events.expect("tenant-8").await;
    assert_eq!(db.record(waiting).await.state, JobState::Available);
    operator.resume_queue("tenant-7", "ada").await.unwrap();
    events.expect("tenant-7").await;
    worker.stop().await;
}

/// Each of many queues has more jobs than slots. All of them are served in turns, more than one claim names.
async fn no_queue_starves_beside_many_others(db: Db) {
    const QUEUES: usize = 150;
    let (probe, mut events) = Probe::new();
    let jobs = || (0..QUEUES).map(|queue| Holds {}.queue(format!("tenant-{queue:03}")));
    db.conn().await.enqueue_all(jobs().chain(jobs())).await;
    let worker = Running::start(db.worker(registry![Holds]).state(probe).queue("*", 1));
    let mut served: Vec<String> = Vec::new();
    for _ in 0..QUEUES {
        served.push(events.next().await.text);
    }
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), QUEUES, "each has one job at a time");
    events.open(2 * QUEUES);
    for _ in 0..QUEUES {
        events.next().await;
    }
    assert_eq!(worker.stop().await.completed, 2 * QUEUES as u64);
}

async fn beside_a_worker_that_names_its_queues_both_serve_what_they_say(db: Db) {
    let ((one, mut of_one), (other, mut of_other)) = (Probe::new(), Probe::new());
    let named = Running::start(db.worker(registry![Holds]).state(one).queue("mail", 1));
    let by_pattern = Running::start(db.worker(registry![Holds]).state(other).queue("*", 1));
    for queue in ["mail", "mail", "tenant-7"] {
        db.enqueue(Holds {}.queue(queue)).await;
    }
    of_one.expect("mail").await;
    let mut seen = [of_other.next().await.text, of_other.next().await.text];
    seen.sort_unstable();
    assert_eq!(seen, ["mail", "tenant-7"]);
    let database = db.database();
    let queues = database.operator.queue_overview().await.unwrap();
    let served: Vec<_> = queues.iter().map(|queue| (queue.name.as_str(), queue.workers, queue.total_slots)).collect();
    assert_eq!(served, [("mail", 2, 2), ("tenant-7", 1, 1)]);
    of_one.open(1);
    of_other.open(2);
    named.stop().await;
    // The worker with the pattern would run it, and the one with the name does not.
    let waiting = db.enqueue(Holds {}.queue("tenant-8").delay(NEVER)).await;
    let reasons = async || database.operator.why(waiting).await.unwrap().reasons;
    assert!(!reasons().await.iter().any(|reason| matches!(reason.reason, Reason::NoWorker { .. })));
    by_pattern.stop().await;
    assert!(reasons().await.iter().any(|reason| matches!(reason.reason, Reason::NoWorker { .. })));
}

async fn a_worker_that_runs_until_nothing_is_left_empties_all_queues_that_fit(db: Db) {
    let (probe, _events) = Probe::new();
    for queue in ["tenant-7", "tenant-8"] {
        db.enqueue(Tells {}.queue(queue)).await;
        db.conn().await.enqueue_all((0..2).map(|_| Limited {}.queue(format!("{queue}-held")))).await;
    }
    let left = db.enqueue(Tells {}.queue("other")).await;
    let worker = db.worker(registry![Tells, Limited]).state(probe).serve("tenant-*").build().unwrap();
    let stats = support::within(support::LIMIT, "all to run", worker.run_until_empty()).await.unwrap();
    assert_eq!(stats.completed, 6);
    assert_eq!(db.record(left).await.state, JobState::Available);
    // It also ends if no queue fits.
    let worker = db.worker(registry![Tells]).state(Probe::new().0).serve("nothing-*").build().unwrap();
    assert_eq!(support::within(support::LIMIT, "the end", worker.run_until_empty()).await.unwrap().completed, 0);
}

async fn what_cannot_be_meant_is_refused(db: Db) {
    let (probe, _events) = Probe::new();
    let worker = || db.worker(registry![Tells]).state(probe.clone());
    for (queue, part) in [
        ("", "must not be empty"),
        ("tenant-?*", "only `*` stands for any characters"),
        ("[a-z]*", "only `*` stands for any characters"),
        ("a*b*", "a pattern has one `*`"),
    ] {
        let refused = worker().serve(queue).build().unwrap_err().to_string();
        assert!(refused.contains(part), "{queue}: {refused}");
    }
    let refused = worker().declare_queue("a*").build().unwrap_err().to_string();
    assert!(refused.contains("name the queue itself there"), "{refused}");
    let refused = worker().queue("a*", 0).build().unwrap_err().to_string();
    assert!(refused.contains("from 1 to 100000 slots"), "{refused}");
    assert!(worker().serve("a*").build().unwrap().unknown_queues().is_empty());
}

support::on_each_database! {
    an_idle_worker_finds_a_job_in_a_new_queue,
    a_busy_worker_finds_new_queues,
    jobs_that_have_waited_for_long_are_found_in_a_new_queue,
    the_most_specific_name_gives_each_queue_its_slots,
    a_paused_queue_is_found_and_waits,
    no_queue_starves_beside_many_others,
    beside_a_worker_that_names_its_queues_both_serve_what_they_say,
    a_worker_that_runs_until_nothing_is_left_empties_all_queues_that_fit,
    what_cannot_be_meant_is_refused,
}
