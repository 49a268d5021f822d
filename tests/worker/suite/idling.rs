//! What an idle worker sends, and that it misses nothing.

use std::sync::Arc;
use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::operator::Asked;
use diesel_jobs::{Database, Job as _, JobContext, JobState, State, Worker, WorkerBuilder, job};
use support::{Db, Probe, Rounds, Running, registry, until};

/// No worker polls so seldom that a test could wait for it.
const NEVER: Duration = Duration::from_secs(3600);

/// A worker that is idle, or soon will be.
const IDLE: &str = "select count(*) as number from jobs.worker where idle";

/// A worker that polls so seldom and rests.
const RESTS: &str = "select count(*) as number from jobs.worker where lease > interval '1 hour'";

/// So many polls pass before a service of an idle worker runs that has nothing to do.
const POLLS: usize = 50;

#[job]
async fn quick() {}

/// Its program has a rule, so a worker that is not idle looks for held jobs once a second.
#[job(concurrency(limit = 1))]
async fn limited() {}

#[job(cron = "0 2 * * *")]
async fn nightly() {}

/// Says that it runs, and waits at the gate.
#[job]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "runs");
    probe.pass().await;
}

/// The services are counted in polls, and not in time. Without the idle mode, there would be a read of the settings for
/// every nine polls. The lease is so long that no stall of the machine delays a heartbeat too much.
async fn an_idle_worker_looks_for_work_with_its_polls_alone(db: Db) {
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![Quick, Limited]).poll_interval(Duration::from_millis(100)).lease(NEVER);
    let worker = Running::start(worker.recorder(rounds.clone()));
    db.await_number(1, IDLE).await;
    // Meanwhile each service has run for the first time.
    rounds.more("next_due", 2 * POLLS).await;
    let services = ["overrides", "rescue", "admit", "schedules", "step_operation", "prune", "fold_history", "leases"];
    let before = services.map(|service| rounds.ended(service));
    let polls = rounds.ended("next_due");
    rounds.more("next_due", 3 * POLLS).await;
    let ran: Vec<usize> = services.iter().zip(before).map(|(service, before)| rounds.ended(service) - before).collect();
    let most = (rounds.ended("next_due") - polls).div_ceil(POLLS) + 1;
    assert!(ran.iter().all(|ran| *ran <= 2 * most), "{services:?} ran {ran:?} times");
    assert!(ran[..3].iter().all(|ran| *ran <= most), "{services:?} ran {ran:?} times");
    worker.stop().await;
}

/// Without slots it does not poll, and its services must not wait for that.
async fn a_worker_without_slots_goes_on_with_its_services(db: Db) {
    let rounds = Arc::<Rounds>::default();
    let worker = Running::start(db.worker(registry![Quick]).lease(Duration::from_secs(1)).recorder(rounds.clone()));
    db.await_number(1, IDLE).await;
    rounds.more("next_due", POLLS).await;
    assert!(db.database().operator.set_slots("default", Some(0), "ada").await.unwrap());
    rounds.more("overrides", 1).await;
    rounds.more("rescue", 20).await;
    worker.stop().await;
}

/// Starts a worker that polls seldom, and waits until it rests. Then it does nothing unless it is told to.
async fn resting(db: &Db, worker: WorkerBuilder) -> (Running, Arc<Rounds>) {
    let rounds = Arc::<Rounds>::default();
    let worker = worker.poll_interval(NEVER).lease(Duration::from_secs(1)).recorder(rounds.clone());
    let worker = Running::start(worker);
    db.await_number(1, RESTS).await;
    (worker, rounds)
}

/// Held jobs included: the pass that the notification starts comes too soon after the last sweep to make one.
async fn a_resting_worker_follows_what_operators_set(db: Db) {
    let operator = db.database().operator.clone();
    let (worker, rounds) = resting(&db, db.worker(registry![Quick, Limited])).await;
    assert!(operator.pause_kind("quick", "ada", None).await.unwrap());
    rounds.more("overrides", 1).await;
    let waiting = db.enqueue(Quick {}).await;
    assert!(operator.resume_kind("quick", "ada").await.unwrap());
    db.await_state(waiting, JobState::Completed).await;
    for pauses in ["kind", "queue"] {
        db.await_number(1, RESTS).await;
        match pauses {
            "kind" => assert!(operator.pause_kind("limited", "ada", None).await.unwrap()),
            _ => assert!(operator.pause_queue("default", "ada", None).await.unwrap()),
        }
        rounds.more("overrides", 1).await;
        let held = db.enqueue(Limited {}).await;
        rounds.more("admit", 1).await;
        match pauses {
            "kind" => assert!(operator.resume_kind("limited", "ada").await.unwrap()),
            _ => assert!(operator.resume_queue("default", "ada").await.unwrap()),
        }
        db.await_state(held, JobState::Completed).await;
    }
    worker.stop().await;
}

async fn a_resting_worker_notices_a_freeze_and_its_end(db: Db) {
    let operator = db.database().operator.clone();
    let (worker, rounds) = resting(&db, db.worker(registry![Quick, Limited])).await;
    operator.freeze("ada", "a test").await.unwrap();
    until("the worker to know it", async || worker.handle().is_frozen().then_some(())).await;
    let jobs = [db.enqueue(Quick {}).await, db.enqueue(Limited {}).await];
    rounds.more("admit", 1).await;
    operator.thaw("ada").await.unwrap();
    for job in jobs {
        db.await_state(job, JobState::Completed).await;
    }
    worker.stop().await;
}

/// A quiet worker polls no more, so no heartbeat can follow a poll.
async fn a_resting_worker_that_becomes_quiet_rests_no_more(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    let operator = db.database().operator.clone();
    let id = operator.workers().await.unwrap()[0].id;
    assert!(operator.ask_worker(id, Asked::Quiet, "ada").await.unwrap());
    db.await_number(1, "select count(*) as number from jobs.worker where lease = interval '1 second'").await;
    worker.stop().await;
}

/// Otherwise it would not hear of a changed setting. It rests again when it is notified again.
async fn a_worker_that_is_not_notified_does_not_rest(db: Db) {
    let (worker, rounds) = resting(&db, db.worker(registry![Quick])).await;
    let mut conn = db.conn().await;
    let name = conn.texts("select current_database()::text as text").await.remove(0);
    let mut admin = AsyncPgConnection::establish(&support::server()).await.unwrap();
    admin.batch_execute(&format!("alter database {name} allow_connections false")).await.unwrap();
    let cut = "select count(pg_terminate_backend(pid)) as number from pg_stat_activity
        where datname = current_database() and query like 'listen %'";
    assert_eq!(conn.number(cut).await, 1);
    rounds.more("overrides", 5).await;
    conn.execute("insert into jobs.queue (name, slots) values ('default', 3)").await;
    rounds.more("overrides", 2).await;
    assert_eq!(worker.handle().queues()[0].slots, 3);
    admin.batch_execute(&format!("alter database {name} allow_connections true")).await.unwrap();
    db.await_number(1, RESTS).await;
    worker.stop().await;
}

/// Its poll finds the dead worker. The rescue must not begin before the heartbeat that follows the poll is answered: it
/// compares the newest heartbeat that the worker knows of with the one that is stored. Here the heartbeat is always
/// stored first, because the rescue waits for the lock of a table that only it needs.
async fn a_resting_worker_rescues(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    // The worker polls once more when a job expires, and not because it was notified, which would end its rest.
    db.execute(
        "begin;
insert into jobs.expiry (job_id, start_by, after) values (1, now() + interval '8 seconds', '1 second');
insert into jobs.worker (id, host, pid, queues, lease) values (gen_random_uuid(), 'dead', 1, '{}', interval '4 seconds');
notify jobs, 'default';
commit",
    )
    .await;
    let mut lock = AsyncPgConnection::establish(db.url()).await.unwrap();
    lock.batch_execute("begin; lock table jobs.job_error in access exclusive mode").await.unwrap();
    let beaten = "select count(*) as number from jobs.worker w
        where w.lease > interval '1 hour' and w.heartbeat_at > (select d.heartbeat_at + interval '8 seconds' from jobs.worker d where d.host = 'dead')";
    db.await_number(1, beaten).await;
    lock.batch_execute("commit").await.unwrap();
    db.await_number(0, "select count(*) as number from jobs.worker where host = 'dead'").await;
    worker.stop().await;
}

/// A worker that polls seldom rests while it is idle: each heartbeat promises the next one for later. A job that it
/// claims must not be rescued as late as that, so it ends the rest before it claims.
async fn a_resting_worker_claims_under_its_usual_lease(db: Db) {
    db.execute(
        "create function only_with_usual_lease() returns trigger language plpgsql as $$
begin
    if exists (select from jobs.worker where id = new.worker and lease > interval '1 second') then
        raise exception 'the worker has claimed while it rested';
    end if;
    return new;
end $$;
create trigger only_with_usual_lease before insert on jobs.running for each row execute function only_with_usual_lease()",
    )
    .await;
    let (probe, mut events) = Probe::new();
    let worker = db.worker(registry![Holds]).state(probe).lease(Duration::from_secs(1));
    let worker = Running::start(worker.poll_interval(Duration::from_secs(11)));
    let rests = "select count(*) as number from jobs.worker where lease = interval '12 seconds'";
    for _ in 0..3 {
        db.await_number(1, rests).await;
        let id = db.enqueue(Holds {}).await;
        events.expect("runs").await;
        db.await_number(0, rests).await;
        events.open(1);
        assert_eq!(db.await_state(id, JobState::Completed).await.attempt, 1);
    }
    assert_eq!(worker.stop().await.leases_lost, 0);
}

/// Its new row has no idle flag, without which nobody would notify it.
async fn an_idle_worker_that_was_declared_dead_is_notified_again(db: Db) {
    let worker = db.worker(registry![Quick]).lease(Duration::from_secs(1)).poll_interval(NEVER);
    let worker = Running::start(worker);
    db.await_number(1, IDLE).await;
    db.execute("delete from jobs.worker").await;
    db.await_number(1, IDLE).await;
    let id = db.enqueue(Quick {}).await;
    db.await_state(id, JobState::Completed).await;
    worker.stop().await;
}

/// The scheduler of a resting worker waits for the next tick by its own clock. If the database's clock steps, or this
/// machine was suspended, the tick is due earlier.
async fn a_resting_worker_reads_the_schedules_again_after_the_clock_has_stepped(db: Db) {
    // The worker's heartbeats are stored with this clock.
    db.execute(
        "create table step as select interval '0' as by;
create function clock_timestamp() returns timestamptz language sql
    as 'select pg_catalog.clock_timestamp() + by from public.step'",
    )
    .await;
    let url = db.url().replace("search_path%3Dpublic", "search_path%3Dpublic,pg_catalog");
    let stepping = Database::open(&url, 4).await.unwrap();
    let (worker, rounds) = resting(&db, Worker::builder(stepping.storage).registry(registry![Nightly])).await;
    db.execute("update step set by = interval '1 hour'; notify jobs, 'default'").await;
    rounds.more("schedules", 1).await;
    worker.stop().await;
}

/// A poll says when the job is due. Its notification wakes the worker from its rest for a poll.
async fn a_resting_worker_admits_a_scheduled_job_with_a_limit_when_it_is_due(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Limited])).await;
    for seconds in [3, 0] {
        let id = db.enqueue(Limited {}.delay(Duration::from_secs(seconds))).await;
        db.await_state(id, JobState::Completed).await;
    }
    worker.stop().await;
}

/// The worker is not asked again before its next poll, which is much later.
async fn a_resting_worker_hears_at_once_that_it_should_stop(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    let operator = db.database().operator.clone();
    let id = operator.workers().await.unwrap()[0].id;
    assert!(operator.ask_worker(id, Asked::Stop, "ada").await.unwrap());
    worker.ended().await;
}

support::on_postgres! {
    an_idle_worker_looks_for_work_with_its_polls_alone,
    a_worker_without_slots_goes_on_with_its_services,
    a_resting_worker_follows_what_operators_set,
    a_resting_worker_notices_a_freeze_and_its_end,
    a_resting_worker_that_becomes_quiet_rests_no_more,
    a_worker_that_is_not_notified_does_not_rest,
    a_resting_worker_rescues,
    a_resting_worker_claims_under_its_usual_lease,
    an_idle_worker_that_was_declared_dead_is_notified_again,
    a_resting_worker_reads_the_schedules_again_after_the_clock_has_stepped,
    a_resting_worker_admits_a_scheduled_job_with_a_limit_when_it_is_due,
    a_resting_worker_hears_at_once_that_it_should_stop,
}
