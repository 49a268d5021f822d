//! A handler that completes its job in a transaction of its own, and prepares that transaction for a later commit
//! (`prepare transaction`).

use std::sync::Arc;
use std::time::Duration;

use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _, TransactionManager as _};
use diesel_jobs::handler::CompleteIn as _;
use diesel_jobs::{JobContext, JobError, JobId, JobState, State, job};
use support::{Db, Events, Probe, Rounds, Running, registry};

/// The database's URL, for the handler.
#[derive(Clone)]
struct Url(String);

#[job(max_attempts = 2, backoff = "fixed(1h)")]
async fn prepares(
    name: String,
    ctx: &JobContext,
    State(url): State<Url>,
    State(probe): State<Probe>,
) -> Result<(), JobError> {
    let mut conn = AsyncPgConnection::establish(&url.0).await.map_err(JobError::new)?;
    type Manager = <AsyncPgConnection as diesel_async::AsyncConnection>::TransactionManager;
    Manager::begin_transaction(&mut conn).await.map_err(JobError::new)?;
    conn.batch_execute("insert into effect (name) values ('written')").await.map_err(JobError::new)?;
    ctx.complete_in(&mut conn).await.map_err(JobError::new)?;
    conn.batch_execute(&format!("prepare transaction '{name}'")).await.map_err(JobError::new)?;
    probe.say(ctx, "prepared");
    Ok(())
}

/// Starts two workers. Returns when a handler has ended with its transaction prepared. The other worker would claim the
/// job if it were available.
async fn prepared(db: &Db) -> (JobId, String, [Running; 2], Events) {
    let (probe, mut events) = Probe::new();
    // The names of prepared transactions are shared by the whole server.
    let name = db.url().rsplit('/').next().unwrap().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let id = db.enqueue(Prepares { name: name.clone() }).await;
    let rounds = Arc::<Rounds>::default();
    let worker = async || {
        let worker = diesel_jobs::Worker::builder(db.again().await.storage).registry(registry![Prepares]);
        let worker =
            worker.poll_interval(Duration::from_millis(50)).lease(Duration::from_secs(10)).recorder(rounds.clone());
        Running::start(worker.state(probe.clone()).state(Url(db.url().to_owned())))
    };
    let workers = [worker().await, worker().await];
    events.expect("prepared").await;
    // Several runs of the reconciler, of the rescuers and of the finish.
    for (operation, times) in [("finish", 3), ("leases", 3), ("rescue", 3)] {
        rounds.more(operation, times).await;
    }
    let (job, failures) = db.show(id).await;
    assert_eq!((job.state, job.attempt, failures.len()), (JobState::Running, 1, 0), "undecided, and said of nobody");
    (id, name, workers, events)
}

async fn end(workers: [Running; 2], mut events: Events) {
    for worker in workers {
        assert_eq!(worker.stop().await.leases_lost, 0);
    }
    assert_eq!(events.rest().len(), 0, "it ran again");
}

async fn a_prepared_completion_counts_when_it_is_committed(db: Db) {
    let (id, name, workers, events) = prepared(&db).await;
    db.execute(&format!("commit prepared '{name}'")).await;
    let job = db.await_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, db.failures(id).await.len(), db.effects("written").await), (1, 0, 1));
    end(workers, events).await;
}

async fn a_prepared_completion_that_is_rolled_back_fails_the_attempt_and_says_why(db: Db) {
    let (id, name, workers, events) = prepared(&db).await;
    db.execute(&format!("rollback prepared '{name}'")).await;
    db.await_number(1, &format!("select count(*) as number from jobs.job_error where job_id = {id}")).await;
    let (job, failures) = db.show(id).await;
    assert!(failures[0].message.contains("its transaction did not commit"), "{failures:?}");
    assert_eq!((job.state.is_waiting(), db.effects("written").await), (true, 0));
    end(workers, events).await;
}

support::on_postgres! {
    a_prepared_completion_counts_when_it_is_committed,
    a_prepared_completion_that_is_rolled_back_fails_the_attempt_and_says_why,
}
