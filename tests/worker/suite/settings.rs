//! What operators set while workers run takes effect when a worker reads it, which it does about once a second, and at
//! a notification if it is idle.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs::operator::{Asked, Keep, RetentionSetting};
use diesel_jobs::{JobContext, JobError, JobState, Outcome, State, job};
use support::{Db, Probe, Rounds, Running, registry, until};

/// No worker polls so seldom that a test could wait for it.
const NEVER: Duration = Duration::from_secs(3600);

#[job]
async fn quick() {}

#[job(queue = "other")]
async fn elsewhere() {}

/// Says that it runs, and waits at the gate.
#[job]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "runs");
    probe.pass().await;
}

#[job(retain = "none")]
async fn leaves_nothing() {}

#[job]
async fn is_cancelled() -> Result<Outcome, JobError> {
    Ok(Outcome::Cancel("no longer needed".to_owned()))
}

#[job(max_attempts = 1)]
async fn fails() -> Result<(), JobError> {
    Err(JobError::msg("always"))
}

/// How many jobs of the queue or kind completed.
async fn completed(db: &Db) -> i64 {
    db.number("select count(*) as number from jobs.job where state = 'completed'").await
}

async fn a_paused_queue_stops_and_a_resume_wakes_the_worker(db: Db) {
    let operator = db.database().operator.clone();
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Quick, Elsewhere]).poll_interval(NEVER).recorder(rounds.clone());
    let worker = Running::start(worker);
    db.enqueue(Quick {}).await;
    db.await_number(1, "select count(*) as number from jobs.job where state = 'completed'").await;
    assert!(operator.pause_queue("default", "ada", Some("the mail server is down")).await.unwrap());
    let waiting = db.enqueue(Quick {}).await;
    let other = db.enqueue(Elsewhere {}).await;
    db.await_state(other, JobState::Completed).await;
    // The claim leaves out a paused queue at once, and the worker need not have heard of the pause.
    assert_eq!(db.record(waiting).await.state, JobState::Available);
    rounds.settings().await;
    assert_eq!(db.record(waiting).await.state, JobState::Available);
    assert!(operator.resume_queue("default", "ada").await.unwrap());
    db.await_state(waiting, JobState::Completed).await;
    worker.stop().await;
}

async fn jobs_of_a_paused_kind_are_passed_over_and_found_after_the_resume(db: Db) {
    let operator = db.database().operator.clone();
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(db.worker(registry![Quick, Fails]).poll_interval(NEVER).recorder(rounds.clone()));
    let before = db.enqueue(Quick {}).await;
    db.await_state(before, JobState::Completed).await;
    assert!(operator.pause_kind("quick", "ada", None).await.unwrap());
    rounds.settings().await;
    let waiting = db.conn().await.enqueue_all((0..50).map(|_| Quick {})).await;
    // As if they were enqueued long ago. Other jobs continue, so the scan floors are above the jobs that are passed
    // over.
    let (ready, long) = match db.is_postgres() {
        true => ("jobs.ready", "interval '1 hour'"),
        false => ("jobs.job", "3600000000"),
    };
    db.execute(&format!("update {ready} set run_at = run_at - {long} where kind = 'quick' and attempt = 0")).await;
    for _ in 0..8 {
        let other = db.enqueue(Fails {}).await;
        db.await_state(other, JobState::Discarded).await;
    }
    for id in &waiting {
        let record = db.record(*id).await;
        assert_eq!((record.state, record.attempt), (JobState::Available, 0));
    }
    assert!(operator.resume_kind("quick", "ada").await.unwrap());
    db.await_number(51, "select count(*) as number from jobs.job where state = 'completed'").await;
    worker.stop().await;
}

async fn a_worker_that_starts_later_follows_the_pause_of_a_kind(db: Db) {
    let operator = db.database().operator.clone();
    operator.pause_kind("quick", "ada", None).await.unwrap();
    let waiting = db.enqueue(Quick {}).await;
    let worker = Running::start(db.worker(registry![Quick, Elsewhere]));
    let other = db.enqueue(Elsewhere {}).await;
    db.await_state(other, JobState::Completed).await;
    let record = db.record(waiting).await;
    assert_eq!((record.state, record.attempt), (JobState::Available, 0), "it was not even claimed");
    worker.stop().await;
}

/// Prefetched jobs wait in the worker, behind a job that takes long.
async fn prefetched_jobs_of_a_paused_kind_are_given_back_without_an_attempt(db: Db) {
    let operator = db.database().operator.clone();
    let (probe, mut events) = Probe::new();
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Quick, Holds]).state(probe).queue("default", 1).recorder(rounds.clone());
    let worker = Running::start(worker);
    db.conn().await.enqueue_all((0..200).map(|_| Quick {})).await;
    db.await_number(200, "select count(*) as number from jobs.job where state = 'completed'").await;
    let mut jobs = vec![diesel_jobs::NewJob::raw("holds", "{}")];
    jobs.extend((0..200).map(|_| diesel_jobs::NewJob::raw("quick", "{}")));
    let ids = db.conn().await.enqueue_all(jobs).await;
    events.expect("runs").await;
    operator.pause_kind("quick", "ada", None).await.unwrap();
    rounds.settings().await;
    for id in &ids[1..] {
        assert_eq!(db.await_state(*id, JobState::Available).await.attempt, 0, "job {id}");
    }
    events.open(1);
    db.await_state(ids[0], JobState::Completed).await;
    operator.resume_kind("quick", "ada").await.unwrap();
    db.await_number(401, "select count(*) as number from jobs.job where state = 'completed'").await;
    worker.stop().await;
}

async fn slots_change_and_no_running_job_is_stopped(db: Db) {
    let operator = db.database().operator.clone();
    let (probe, mut events) = Probe::new();
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Holds]).state(probe).queue("default", 2).recorder(rounds.clone());
    let worker = Running::start(worker);
    db.conn().await.enqueue_all((0..20).map(|_| Holds {})).await;
    let more = async |events: &mut support::Events, number: usize| {
        for _ in 0..number {
            events.expect("runs").await;
        }
        // The worker has time to claim more.
        rounds.settings().await;
        assert!(events.rest().is_empty(), "no more than that");
    };
    more(&mut events, 2).await;
    assert!(operator.set_slots("default", Some(5), "ada").await.unwrap());
    more(&mut events, 3).await;

    // With one slot, four jobs must end before the next one starts.
    operator.set_slots("default", Some(1), "ada").await.unwrap();
    rounds.settings().await;
    assert_eq!(worker.handle().in_flight(), 5);
    events.open(4);
    until("four jobs to end", async || (completed(&db).await == 4).then_some(())).await;
    rounds.settings().await;
    assert!(events.rest().is_empty());
    events.open(1);
    more(&mut events, 1).await;

    operator.set_slots("default", Some(0), "ada").await.unwrap();
    rounds.settings().await;
    events.open(1);
    until("the last job to end", async || (completed(&db).await == 6).then_some(())).await;
    rounds.settings().await;
    assert!(events.rest().is_empty(), "nothing starts without slots");

    // As the worker was started.
    operator.set_slots("default", None, "ada").await.unwrap();
    more(&mut events, 2).await;
    events.open(100);
    db.await_number(20, "select count(*) as number from jobs.job where state = 'completed'").await;
    worker.stop().await;
}

async fn a_quiet_worker_claims_nothing_more_and_goes_on_with_its_jobs(db: Db) {
    let operator = db.database().operator.clone();
    let (probe, mut events) = Probe::new();
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Holds]).state(probe).lease(Duration::from_secs(10)).program_version("7.1");
    let worker = Running::start(worker.recorder(rounds.clone()));
    let running = db.enqueue(Holds {}).await;
    events.expect("runs").await;
    let record = operator.workers().await.unwrap().remove(0);
    assert_eq!((record.version.as_deref(), record.slots["default"], record.asked), (Some("7.1"), 16, None));
    let runs = operator.running(record.id).await.unwrap();
    assert_eq!((runs[0].id, runs[0].kind.as_str(), runs[0].attempt), (running, "holds", 1));

    assert!(operator.ask_worker(record.id, Asked::Quiet, "ada").await.unwrap());
    // A heartbeat brings the word. When the third one has ended, the worker does what the second one has brought.
    rounds.more("beat", 3).await;
    let waiting = db.enqueue(Holds {}).await;
    rounds.more("beat", 1).await;
    assert_eq!(db.record(waiting).await.state, JobState::Available);
    events.open(1);
    db.await_state(running, JobState::Completed).await;
    let record = operator.workers().await.unwrap().remove(0);
    assert_eq!((record.alive, record.asked, record.asked_by.as_deref()), (true, Some(Asked::Quiet), Some("ada")));

    assert!(operator.ask_worker(record.id, Asked::Stop, "bert").await.unwrap());
    worker.ended().await;
    assert!(!operator.ask_worker(record.id, Asked::Stop, "bert").await.unwrap(), "it is gone");
    assert_eq!(db.record(waiting).await.state, JobState::Available);
}

async fn the_retention_that_operators_set_comes_before_that_of_the_code(db: Db) {
    let operator = db.database().operator.clone();
    let set = async |kind: Option<&str>, state, keep| {
        let setting = RetentionSetting { kind: kind.map(str::to_owned), state, keep };
        assert!(operator.set_retention(&setting, "ada").await.unwrap());
    };
    set(Some("leaves_nothing"), JobState::Completed, Keep::Forever).await;
    set(None, JobState::Completed, Keep::Nothing).await;
    set(None, JobState::Cancelled, Keep::Nothing).await;
    set(Some("fails"), JobState::Discarded, Keep::Nothing).await;
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Quick, LeavesNothing, IsCancelled, Fails]).recorder(rounds.clone());
    let worker = Running::start(worker);
    let kept = db.enqueue(LeavesNothing {}).await;
    db.await_state(kept, JobState::Completed).await;
    let gone = [db.enqueue(Quick {}).await, db.enqueue(IsCancelled {}).await, db.enqueue(Fails {}).await];
    db.await_number(1, "select count(*) as number from jobs.job").await;
    for id in gone {
        assert!(operator.show(id).await.unwrap().is_none());
    }
    // A change reaches a worker that runs.
    assert!(operator.unset_retention(None, JobState::Completed, "ada").await.unwrap());
    rounds.settings().await;
    let stays = db.enqueue(Quick {}).await;
    db.await_state(stays, JobState::Completed).await;
    worker.stop().await;
}

/// Three workers, and two operators who pause and resume all the time. Each job runs exactly once.
async fn a_storm_of_pauses_loses_no_job(db: Db) {
    let mut workers = Vec::new();
    for _ in 0..3 {
        let storage = db.again().await.storage;
        let worker = diesel_jobs::Worker::builder(storage).registry(registry![Quick, Elsewhere]);
        workers.push(Running::start(worker));
    }
    let storm = |operator: Arc<dyn diesel_jobs::operator::Operator>| async move {
        for round in 0..25_u32 {
            operator.pause_kind("quick", "ada", None).await.unwrap();
            operator.set_slots("default", Some(round % 4), "ada").await.unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
            operator.pause_queue("other", "ada", None).await.unwrap();
            operator.resume_kind("quick", "ada").await.unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
            operator.resume_queue("other", "ada").await.unwrap();
        }
        operator.set_slots("default", None, "ada").await.unwrap();
    };
    let storms = [tokio::spawn(storm(db.again().await.operator)), tokio::spawn(storm(db.again().await.operator))];
    let mut conn = db.conn().await;
    for _ in 0..100 {
        conn.enqueue_all((0..10).map(|_| Quick {})).await;
        conn.enqueue_all((0..10).map(|_| Elsewhere {})).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for storm in storms {
        storm.await.unwrap();
    }
    // The last words of both storms may be a pause of the other one.
    let operator = &db.database().operator;
    operator.resume_kind("quick", "ada").await.unwrap();
    operator.resume_queue("other", "ada").await.unwrap();
    db.await_number(2000, "select count(*) as number from jobs.job where state = 'completed'").await;
    let mut ran = 0;
    for worker in workers {
        ran += worker.stop().await.completed;
    }
    assert_eq!(ran, 2000, "each job completed once");
    assert_eq!(db.number("select count(*) as number from jobs.job where attempt <> 1").await, 0);
}

support::on_each_database! {
    a_paused_queue_stops_and_a_resume_wakes_the_worker,
    jobs_of_a_paused_kind_are_passed_over_and_found_after_the_resume,
    a_worker_that_starts_later_follows_the_pause_of_a_kind,
    prefetched_jobs_of_a_paused_kind_are_given_back_without_an_attempt,
    slots_change_and_no_running_job_is_stopped,
    a_quiet_worker_claims_nothing_more_and_goes_on_with_its_jobs,
    the_retention_that_operators_set_comes_before_that_of_the_code,
    a_storm_of_pauses_loses_no_job,
}
