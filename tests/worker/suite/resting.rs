//! A worker that polls seldom rests while it is idle, and misses nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::operator::{Action, Asked};
use diesel_jobs::{Database, Job as _, JobContext, JobState, State, Worker, WorkerBuilder, job};
use support::{Db, Probe, Rounds, Running, registry, until};

/// No worker polls so seldom that a test could wait for it.
const NEVER: Duration = Duration::from_secs(3600);

/// So soon a worker without jobs rests. Until then its services have settled.
const EARLY: Duration = Duration::from_secs(3);

/// A worker that polls so seldom and rests.
const RESTS: &str = "select count(*) as number from jobs.worker where lease > interval '1 hour'";

#[job]
async fn quick() {}

/// Its program has a rule, so a worker that is not idle looks for held jobs once a second.
#[job(concurrency(limit = 1))]
async fn limited() {}

/// No worker of these tests knows it.
#[job(concurrency("desk", limit = 1))]
async fn unserved() {}

#[job(concurrency("desk", limit = 1))]
async fn served() {}

#[job(cron = "0 2 * * *")]
async fn nightly() {}

/// Says that it runs, and waits at the gate.
#[job]
async fn holds(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "runs");
    probe.pass().await;
}

/// Starts a worker that polls seldom, and waits until it rests. Then it does nothing unless it is told to.
pub(crate) async fn resting(db: &Db, worker: WorkerBuilder) -> (Running, Arc<Rounds>) {
    let rounds = Arc::<Rounds>::default();
    let worker = worker.poll_interval(NEVER).lease(Duration::from_secs(1)).early_polls(EARLY).recorder(rounds.clone());
    let worker = Running::start(worker);
    db.await_number(1, RESTS).await;
    (worker, rounds)
}

/// Held jobs included: the pass that the notification starts comes too soon after the last sweep to make one.
async fn a_resting_worker_follows_what_operators_set(db: Db) {
    let operator = db.database().operator.clone();
    let (worker, rounds) = resting(&db, db.worker(registry![Quick, Limited, Nightly])).await;
    assert!(operator.pause_kind("quick", "ada", None).await.unwrap());
    assert!(operator.set_slots("default", Some(3), "ada").await.unwrap());
    until("the slots", async || (worker.handle().queues()[0].slots == 3).then_some(())).await;
    let waiting = db.enqueue(Quick {}).await;
    let later = db.enqueue(Nightly {}).await;
    db.await_state(later, JobState::Completed).await;
    assert_eq!(db.record(waiting).await.state, JobState::Available);
    db.await_number(1, RESTS).await;
    assert!(operator.resume_kind("quick", "ada").await.unwrap());
    db.await_state(waiting, JobState::Completed).await;
    for pauses in ["kind", "queue"] {
        db.await_number(1, RESTS).await;
        let paused = async {
            match pauses {
                "kind" => operator.pause_kind("limited", "ada", None).await.unwrap(),
                _ => operator.pause_queue("default", "ada", None).await.unwrap(),
            }
        };
        assert!(rounds.after(paused, "overrides", 1).await);
        let held = rounds.after(db.enqueue(Limited {}), "admit", 1).await;
        assert_eq!(db.record(held).await.state, JobState::Held);
        match pauses {
            "kind" => assert!(operator.resume_kind("limited", "ada").await.unwrap()),
            _ => assert!(operator.resume_queue("default", "ada").await.unwrap()),
        }
        db.await_state(held, JobState::Completed).await;
    }
    worker.stop().await;
}

/// The change is read again soon, and not after 50 polls.
async fn a_resting_worker_that_fails_to_read_a_setting_reads_it_again(db: Db) {
    let (worker, rounds) = resting(&db, db.worker(registry![Quick])).await;
    db.execute(
        "begin; insert into jobs.queue (name, slots) values ('default', 3); alter table jobs.retention rename to gone; commit",
    )
    .await;
    until("a read that fails", async || (rounds.failed("overrides") > 0).then_some(())).await;
    db.execute("alter table jobs.gone rename to retention").await;
    until("the slots", async || (worker.handle().queues()[0].slots == 3).then_some(())).await;
    worker.stop().await;
}

/// The worker polls a few times, because of notifications about its own queue. No live worker runs these jobs.
async fn a_resting_worker_counts_the_jobs_when_one_is_due_elsewhere(db: Db) {
    let worker = Worker::builder(db.storage_without_stopwatch().await).registry(registry![Quick]);
    let (worker, rounds) = resting(&db, worker).await;
    for (queue, kind) in [("nobodys", "quick"), ("default", "of_a_newer_program")] {
        let enqueue = format!(
            "delete from jobs.ready;
             insert into jobs.ready (queue, kind, args, run_at) values ('{queue}', '{kind}', '{{}}', now() - interval '1 minute')"
        );
        db.execute(&enqueue).await;
        let named =
            format!("select count(*) as number from jobs.sample where counts::text like '%\"{queue}\"%{kind}%'");
        let before = rounds.ended("next_due");
        while db.number(&named).await == 0 {
            let counts = rounds.ended("sample_jobs");
            // Every second poll looks for such jobs.
            for _ in 0..2 {
                rounds.after(db.execute("notify jobs, 'default'"), "next_due", 1).await;
            }
            until("a count", async || (rounds.ended("sample_jobs") > counts).then_some(())).await;
        }
        // After so many polls they are counted in any case.
        assert!(rounds.ended("next_due") - before < 50);
    }
    worker.stop().await;
}

/// The notifications are about nothing. Each would end the rest, which costs two heartbeats, a claim and a poll.
async fn a_resting_worker_reacts_to_few_of_many_notifications(db: Db) {
    let (worker, rounds) = resting(&db, db.worker(registry![Limited])).await;
    let (before, begun, mut conn) = (rounds.ended("admit"), Instant::now(), db.conn().await);
    for _ in 0..100 {
        conn.execute("notify jobs; select pg_sleep(0.02)").await;
    }
    let (passes, seconds) = (rounds.ended("admit") - before, begun.elapsed().as_secs());
    assert!((1..=20 + 2 * seconds).contains(&u64::try_from(passes).unwrap()), "{passes} passes in {seconds} seconds");
    worker.stop().await;
}

/// Each poll finds that the next sweep is in a few milliseconds. A sweep needs no more than one.
async fn a_resting_worker_polls_no_more_often_than_it_sweeps(db: Db) {
    let (worker, rounds) = resting(&db, db.worker(registry![Limited])).await;
    db.execute(
        "begin;
insert into jobs.expiry (job_id, start_by, after)
    select each, now() + each * interval '10 milliseconds', '1 second' from generate_series(1, 30000) each;
notify jobs, 'default';
commit",
    )
    .await;
    rounds.more("admit", 1).await;
    let before = rounds.ended("next_due");
    rounds.more("admit", 3).await;
    let polls = rounds.ended("next_due") - before;
    assert!(polls <= 40, "{polls} polls");
    worker.stop().await;
}

async fn a_resting_worker_notices_a_freeze_and_its_end(db: Db) {
    let operator = db.database().operator.clone();
    let (worker, rounds) = resting(&db, db.worker(registry![Quick, Limited])).await;
    operator.freeze("ada", "a test").await.unwrap();
    until("the worker to know it", async || worker.handle().is_frozen().then_some(())).await;
    let jobs = [db.enqueue(Quick {}).await, rounds.after(db.enqueue(Limited {}), "admit", 1).await];
    operator.thaw("ada").await.unwrap();
    for job in jobs {
        db.await_state(job, JobState::Completed).await;
    }
    worker.stop().await;
}

/// A quiet worker polls no more, so no heartbeat and no service can follow a poll.
async fn a_resting_worker_that_becomes_quiet_rests_no_more(db: Db) {
    let (worker, rounds) = resting(&db, db.worker(registry![Quick])).await;
    let operator = db.database().operator.clone();
    let id = operator.workers().await.unwrap()[0].id;
    assert!(operator.ask_worker(id, Asked::Quiet, "ada").await.unwrap());
    db.await_number(1, "select count(*) as number from jobs.worker where lease = interval '1 second'").await;
    rounds.more("rescue", 3).await;
    worker.stop().await;
}

/// It rests on meanwhile, and follows what it has not heard of.
async fn a_resting_worker_hears_of_changes_when_it_listens_again(db: Db) {
    let (worker, _) = resting(&db, db.worker(registry![Quick])).await;
    let mut conn = db.conn().await;
    let name = conn.texts("select current_database()::text as text").await.remove(0);
    let mut admin = AsyncPgConnection::establish(&support::server()).await.unwrap();
    admin.batch_execute(&format!("alter database {name} allow_connections false")).await.unwrap();
    let cut = "select count(pg_terminate_backend(pid)) as number from pg_stat_activity
        where datname = current_database() and query like 'listen %'";
    assert_eq!(conn.number(cut).await, 1);
    conn.execute("insert into jobs.queue (name, slots) values ('default', 3)").await;
    admin.batch_execute(&format!("alter database {name} allow_connections true")).await.unwrap();
    until("the worker to follow the slots", async || (worker.handle().queues()[0].slots == 3).then_some(())).await;
    db.await_number(1, RESTS).await;
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
    let worker = Running::start(worker.poll_interval(Duration::from_secs(11)).early_polls(EARLY));
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
    rounds.after(db.execute("notify jobs"), "schedules", 1).await;
    rounds.after(db.execute("update step set by = interval '1 hour'; notify jobs, 'default'"), "schedules", 1).await;
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

async fn a_resting_worker_hears_of_a_permit_that_an_operator_has_freed(db: Db) {
    let operator = db.database().operator.clone();
    let (worker, _) = resting(&db, db.worker(registry![Served])).await;
    for action in [Action::Cancel, Action::Discard, Action::Delete] {
        let first = db.enqueue(Unserved {}).await;
        db.await_state(first, JobState::Available).await;
        let next = db.enqueue(Served {}).await;
        db.await_number(1, RESTS).await;
        assert_eq!(db.record(next).await.state, JobState::Held);
        assert!(operator.act(&action, &[first], "ada").await.is_ok(), "{action:?}");
        db.await_state(next, JobState::Completed).await;
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
    a_resting_worker_follows_what_operators_set,
    a_resting_worker_that_fails_to_read_a_setting_reads_it_again,
    a_resting_worker_counts_the_jobs_when_one_is_due_elsewhere,
    a_resting_worker_reacts_to_few_of_many_notifications,
    a_resting_worker_polls_no_more_often_than_it_sweeps,
    a_resting_worker_notices_a_freeze_and_its_end,
    a_resting_worker_that_becomes_quiet_rests_no_more,
    a_resting_worker_hears_of_changes_when_it_listens_again,
    a_resting_worker_claims_under_its_usual_lease,
    a_resting_worker_reads_the_schedules_again_after_the_clock_has_stepped,
    a_resting_worker_admits_a_scheduled_job_with_a_limit_when_it_is_due,
    a_resting_worker_hears_of_a_permit_that_an_operator_has_freed,
    a_resting_worker_hears_at_once_that_it_should_stop,
}
