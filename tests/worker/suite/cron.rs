//! Schedules on several workers: each tick is one job.

use std::time::{Duration, Instant};

use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::handler::Registered;
use diesel_jobs::schedule::CatchUp;
use diesel_jobs::schedule::DeclaredSchedule;
use diesel_jobs::{JobContext, State, Worker, job};
use support::{Db, Probe, Running, registry};

#[job(cron = "* * * * * *", catch_up = "all", priority = 3, queue = "ticks")]
async fn every_second() {}

#[job(cron = "* * * * * *", catch_up = "skip")]
async fn every_second_while_somebody_is_there() {}

#[job]
async fn has_no_schedule() {}

async fn workers(db: &Db, number: usize) -> Vec<Running> {
    let mut workers = Vec::new();
    for _ in 0..number {
        let registry = registry![EverySecond, EverySecondWhileSomebodyIsThere];
        workers.push(Running::start(Worker::builder(db.again().await.storage).registry(registry)));
    }
    workers
}

/// The last tick of the schedule, in seconds.
const STANDS: &str =
    "select floor(extract(epoch from last_tick))::bigint as number from jobs.schedule where name = 'every_second'";

async fn three_workers_enqueue_each_tick_once(db: Db) {
    let spec = EverySecond::REGISTRATION.schedule.unwrap();
    let declared = DeclaredSchedule {
        name: "every_second".to_owned(),
        expression: spec.expression.to_owned(),
        timezone: spec.timezone.to_owned(),
        catch_up: CatchUp::All,
    };
    db.storage().schedules(&[declared]).await.unwrap();
    let from = db.number(STANDS).await;
    let workers = workers(&db, 3).await;
    let enough = "select (count(*) >= 5)::int::bigint as number from jobs.job where kind = 'every_second'";
    db.await_number(1, enough).await;
    for worker in workers {
        worker.stop().await;
    }
    let ticks = db.number(STANDS).await - from;
    assert!(ticks >= 5);
    assert_eq!(db.number("select count(*) as number from jobs.job where kind = 'every_second'").await, ticks);
    let as_declared =
        "select count(*) as number from jobs.job where kind = 'every_second' and priority = 3 and queue = 'ticks'";
    assert_eq!(db.number(as_declared).await, ticks);
}

/// No worker ran for ten minutes. One schedule catches up all its ticks, the other none.
async fn after_an_outage_each_schedule_catches_up_as_it_says(db: Db) {
    for worker in workers(&db, 1).await {
        db.await_number(2, "select count(*) as number from jobs.schedule").await;
        worker.stop().await;
    }
    db.execute("delete from jobs.ready; update jobs.schedule set last_tick = date_trunc('second', now()) - interval '10 minutes'").await;
    let count = |kind: &str| format!("select count(*) as number from jobs.job where kind = '{kind}'");
    let begun = Instant::now();
    let workers = workers(&db, 3).await;
    let completed = "select (count(*) >= 600)::int::bigint as number from jobs.job
        where kind = 'every_second' and state = 'completed'";
    db.await_number(1, completed).await;
    // Each job has the time of its tick.
    let odd = "select count(*) - count(distinct run_at) filter (where run_at = date_trunc('second', run_at)) as number
        from jobs.job where kind = 'every_second'";
    assert_eq!(db.number(odd).await, 0);
    for worker in workers {
        worker.stop().await;
    }
    let fresh = db.number(&count("every_second_while_somebody_is_there")).await;
    let most = 62 + i64::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(fresh <= most, "{fresh} ticks, of which at most the last minute's count as fresh");
}

#[job]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "started");
    probe.pass().await;
}

async fn a_worker_that_drains_ticks_no_more(db: Db) {
    let (probe, mut events) = Probe::new();
    db.enqueue(Held {}).await;
    let worker = Running::start(db.worker(registry![Held, EverySecond]).state(probe));
    events.expect("started").await;
    db.await_number(1, "select (count(*) > 0)::int::bigint as number from jobs.job where kind = 'every_second'").await;
    worker.handle().shutdown();
    // A tick may be under way. It is the last one, so sooner or later the schedule stands for longer than its second.
    support::until("the schedule to stand", async || {
        let stands = db.number(STANDS).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        (db.number(STANDS).await == stands).then_some(())
    })
    .await;
    events.open(1);
    worker.ended().await;
}

/// Declares a schedule of this kind, as another version of the program does.
async fn declared_elsewhere(db: &Db, kind: &str) {
    let elsewhere = DeclaredSchedule {
        name: kind.to_owned(),
        expression: "* * * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        catch_up: CatchUp::All,
    };
    db.storage().schedules(&[elsewhere]).await.unwrap();
}

/// The same kind, in the version of the program that has a schedule for it.
mod newer {
    #[diesel_jobs::job(cron = "* * * * * *", catch_up = "all")]
    pub(super) async fn has_no_schedule() {}
}

const TICKS: &str = "select count(*) as number from jobs.job where kind = 'has_no_schedule'";
const STORED: &str = "select count(*) as number from jobs.schedule where name = 'has_no_schedule'";

async fn an_older_program_leaves_the_schedule_of_a_newer_one_alone(db: Db) {
    let older =
        || Running::start(db.worker(registry![HasNoSchedule, EverySecond]).poll_interval(Duration::from_millis(50)));
    let newer = Running::start(db.worker(registry![newer::HasNoSchedule]).poll_interval(Duration::from_millis(50)));
    db.await_number(1, "select (count(*) >= 1)::int::bigint as number from jobs.job where kind = 'has_no_schedule'")
        .await;
    // The older worker starts now. When it has declared its own schedule, it has also read the other one.
    let first = older();
    db.await_number(1, "select count(*) as number from jobs.schedule where name = 'every_second'").await;
    let so_far = db.number(TICKS).await;
    db.await_number(
        1,
        &format!(
            "select (count(*) > {so_far} + 1)::int::bigint as number from jobs.job where kind = 'has_no_schedule'"
        ),
    )
    .await;
    assert_eq!(db.number(STORED).await, 1);
    // Without the newer worker, it does not process a schedule that its code does not have.
    newer.stop().await;
    let so_far = db.number(TICKS).await;
    let last = db.number(STANDS).await;
    support::until("three ticks of its own schedule", async || (db.number(STANDS).await >= last + 3).then_some(()))
        .await;
    assert_eq!((db.number(TICKS).await, db.number(STORED).await), (so_far, 1));
    first.stop().await;
}

async fn a_schedule_that_was_removed_while_its_worker_runs_comes_back(db: Db) {
    let worker = Running::start(db.worker(registry![EverySecond]).poll_interval(Duration::from_millis(50)));
    db.await_number(1, "select count(*) as number from jobs.schedule").await;
    db.execute("delete from jobs.schedule").await;
    db.await_number(1, "select count(*) as number from jobs.schedule").await;
    worker.stop().await;
}

/// The schedule has a name of its own, so no program declares it.
async fn a_schedule_added_by_hand_ticks_wherever_its_kind_is_known(db: Db) {
    declared_elsewhere(&db, "by hand").await;
    db.execute("update jobs.schedule set kind = 'has_no_schedule'").await;
    let worker = Running::start(db.worker(registry![HasNoSchedule]).poll_interval(Duration::from_millis(50)));
    db.await_number(1, "select (count(*) >= 1)::int::bigint as number from jobs.job where kind = 'has_no_schedule'")
        .await;
    worker.stop().await;
}

// Schedules tick in the order of their names, so these come first.

#[job(cron = "* * * * * *", catch_up = "all")]
async fn a_refused_one() {}

#[job(cron = "* * * * * *", catch_up = "all", unique())]
async fn a_unique_one() {}

#[job(cron = "* * * * * *", catch_up = "all", concurrency(limit = 1))]
async fn a_limited_one() {}

async fn await_ticks(db: &Db, kind: &str, ticks: usize) {
    let enough =
        format!("select count(*) as number from (select 1 from jobs.job where kind = '{kind}' limit {ticks}) as ticks");
    db.await_number(i64::try_from(ticks).unwrap(), &enough).await;
}

async fn a_schedule_whose_jobs_are_refused_stops_no_other(db: Db) {
    let (refuse, accept) = if db.is_postgres() {
        (
            "create function refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
             create trigger refuse before insert on jobs.ready for each row when (new.kind = 'a_refused_one')
             execute function refuse()",
            "drop trigger refuse on jobs.ready",
        )
    } else {
        (
            "create trigger refuse before insert on jobs.job when new.kind = 'a_refused_one'
             begin select raise(abort, 'not today'); end",
            "drop trigger refuse",
        )
    };
    db.execute(refuse).await;
    let worker = Running::start(db.worker(registry![ARefusedOne, EverySecond]));
    await_ticks(&db, "every_second", 3).await;
    let refused = "select count(*) as number from jobs.job where kind = 'a_refused_one'";
    assert_eq!(db.number(refused).await, 0);
    db.execute(accept).await;
    await_ticks(&db, "a_refused_one", 3).await;
    worker.stop().await;
}

async fn a_schedule_whose_key_or_table_is_locked_stops_no_other(db: Db) {
    let mut application = db.conn().await;
    application.execute("begin").await;
    application.enqueue(AUniqueOne {}).await;
    application.execute("lock table jobs.held in share row exclusive mode").await;
    // Such a tick gives up long before the server would cancel it, and does not count as an outage.
    for (kind, job) in
        [("a_unique_one", AUniqueOne {}.into_new_job()), ("a_limited_one", ALimitedOne {}.into_new_job())]
    {
        declared_elsewhere(&db, kind).await;
        let stored = db.storage().schedules(&[]).await.unwrap();
        let schedule = stored.all.iter().find(|one| one.name == kind).unwrap();
        let refused = db.storage().tick(schedule, stored.now, &[job.unwrap()]).await.unwrap_err();
        assert!(refused.to_string().contains("lock timeout") && !refused.is_transient(), "{refused}");
    }
    let worker = Running::start(db.worker(registry![ALimitedOne, AUniqueOne, EverySecond]));
    await_ticks(&db, "every_second", 3).await;
    let locked = "select count(*) as number from jobs.job where kind in ('a_unique_one', 'a_limited_one')";
    assert_eq!(db.number(locked).await, 0);
    application.execute("rollback").await;
    await_ticks(&db, "a_unique_one", 1).await;
    await_ticks(&db, "a_limited_one", 1).await;
    worker.stop().await;
}

mod on_both {
    use super::a_schedule_whose_jobs_are_refused_stops_no_other;

    support::on_each_database! { a_schedule_whose_jobs_are_refused_stops_no_other }
}

support::on_postgres! {
    a_schedule_whose_key_or_table_is_locked_stops_no_other,
    three_workers_enqueue_each_tick_once,
    after_an_outage_each_schedule_catches_up_as_it_says,
    an_older_program_leaves_the_schedule_of_a_newer_one_alone,
    a_schedule_that_was_removed_while_its_worker_runs_comes_back,
    a_schedule_added_by_hand_ticks_wherever_its_kind_is_known,
    a_worker_that_drains_ticks_no_more,
}
