//! The database ends every connection of the worker, several times. Jobs are neither lost nor run twice.

use std::time::Duration;

use diesel_jobs::{Database, JobContext, JobState, State, Worker, job};
use support::{Conn, Db, Probe, Running, registry};

const JOBS: usize = 1000;

#[job]
async fn short(ctx: &JobContext, State(probe): State<Probe>) {
    tokio::time::sleep(Duration::from_millis(3)).await;
    probe.say(ctx, "ran");
}

const OTHERS: &str = "select count(*) as number from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()";

/// Ends all connections to this database except the one that asks. Returns how many.
async fn end_connections(conn: &mut Conn) -> i64 {
    conn.number(
        "select count(pg_terminate_backend(pid)) as number from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .await
}

async fn ended_connections_lose_no_job_and_repeat_none(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    conn.enqueue_all((0..JOBS).map(|_| Short {})).await;
    let worker = Running::start(db.worker(registry![Short]).state(probe).slots(4).lease(Duration::from_secs(10)));
    // Each time the worker has jobs, which it has just reported, and is connected again.
    let mut ended = 0;
    for _ in 0..8 {
        for _ in 0..20 {
            events.expect("ran").await;
        }
        while conn.number(OTHERS).await < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ended += end_connections(&mut conn).await;
    }
    assert!(ended >= 16, "only {ended} connections were ended");
    db.await_number(JOBS.try_into().unwrap(), "select count(*) as number from jobs.job where state = 'completed'")
        .await;
    assert!(worker.handle().is_healthy());
    worker.stop().await;
    // A claim whose reply was lost is a lease that no worker knows of. It delays the job, and is not counted as a
    // failure.
    let unclean = "select count(*) as number from jobs.job where attempt <> 1 or crashes <> 0";
    assert_eq!(db.number(unclean).await, 0, "no attempt was lost or repeated");
    let again = events.rest().len() + 8 * 20;
    assert_eq!(again, JOBS, "each job started once");
}

/// The connections that are ended include that of the idle worker's listener.
async fn an_idle_worker_hears_of_jobs_again_after_its_connections_were_ended(db: Db) {
    let (probe, mut events) = Probe::new();
    let mut conn = db.conn().await;
    let worker = Running::start(db.worker(registry![Short]).state(probe).poll_interval(Duration::from_millis(500)));
    for _ in 0..3 {
        let id = conn.enqueue(Short {}).await;
        assert_eq!(events.next().await.job, id);
        db.await_state(id, JobState::Completed).await;
        assert!(end_connections(&mut conn).await > 0);
    }
    worker.stop().await;
}

#[job(max_attempts = 1)]
async fn held(ctx: &JobContext, State(probe): State<Probe>) {
    probe.say(ctx, "began");
    probe.pass().await;
}

/// What holds up one heartbeat may hold up those of all workers. Then a worker must not take the jobs of another one,
/// nor its own.
async fn workers_whose_heartbeats_wait_for_a_lock_rescue_no_jobs(db: Db) {
    let (probe, mut events) = Probe::new();
    let ids = [db.enqueue(Held {}).await, db.enqueue(Held {}).await];
    // However long a heartbeat waits, it does not fail.
    let worker = async || {
        let worker = Worker::builder(db.storage_without_stopwatch().await).registry(registry![Held]);
        Running::start(worker.state(probe.clone()).slots(1).lease(Duration::from_secs(8)))
    };
    let workers = [worker().await, worker().await];
    events.expect("began").await;
    events.expect("began").await;
    // A worker rescues nobody before its second heartbeat.
    db.await_number(2, "select count(*) as number from jobs.worker where heartbeat_at > started_at + lease").await;
    // Each heartbeat reads this table.
    let mut conn = db.conn().await;
    conn.execute("begin; lock table jobs.installation in access exclusive mode").await;
    let old = "select count(*) as number from jobs.worker where heartbeat_at < now() - 4 * lease";
    db.await_number(2, old).await;
    conn.execute("commit").await;
    events.open(4);
    for id in ids {
        let job = db.await_state(id, JobState::Completed).await;
        assert_eq!((job.attempt, job.crashes), (1, 0));
    }
    for worker in workers {
        worker.stop().await;
    }
}

/// As at a move to another server, while the old one can still be reached.
async fn a_worker_moves_as_a_whole_when_its_url_file_names_another_database(db: Db) {
    let other = Db::postgres().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), db.url()).unwrap();
    let database = Database::builder_with_url_file(file.path()).open().await.unwrap();
    let (probe, mut events) = Probe::new();
    let worker =
        Worker::builder(database.storage).registry(registry![Short, Held]).state(probe).lease(Duration::from_secs(8));
    let worker = Running::start(worker.poll_interval(Duration::from_millis(50)));
    let left = db.enqueue(Held {}).await;
    events.expect("began").await;
    // The connection of the heartbeats is known by its last statement.
    db.await_number(1, "select count(*) as number from jobs.worker where heartbeat_at > started_at").await;
    std::fs::write(file.path(), other.url()).unwrap();
    let id = other.enqueue(Short {}).await;
    // Those of its pool, and not the heartbeat's nor the listener's. New ones lead to the other database.
    let pool = "select count(pg_terminate_backend(pid)) as number from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()
          and query not like 'listen %' and query not like '%heartbeat_at%'";
    assert!(db.number(pool).await > 0);
    other.await_state(id, JobState::Completed).await;
    // The end of this job cannot be stored there any more. The next worker releases it, and counts no crash.
    db.await_number(1, "select count(*) as number from jobs.worker where draining_at is not null").await;
    events.open(1);
    worker.stop().await;
    db.execute("update jobs.worker set heartbeat_at = now() - interval '1 hour'").await;
    let next = Running::start(db.worker(registry![Held]).state(Probe::new().0));
    let job = db.await_state(left, JobState::Running).await;
    assert_eq!((job.attempt, job.crashes), (1, 0), "the only attempt was given back");
    next.handle().shutdown_now();
    next.ended().await;
}

support::on_postgres! {
    a_worker_moves_as_a_whole_when_its_url_file_names_another_database,
    workers_whose_heartbeats_wait_for_a_lock_rescue_no_jobs,
    ended_connections_lose_no_job_and_repeat_none,
    an_idle_worker_hears_of_jobs_again_after_its_connections_were_ended,
}
