//! A database is replaced by another one while a worker runs: a dump is restored over it, or a copy is renamed.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs::{JobState, StorageError, WorkerError, job};
use support::{Db, Rounds, Running, registry};

const LEASE: Duration = Duration::from_secs(10);

#[job]
async fn mail_a_customer() {}

/// Makes the database look like another one: it does not contain the worker, and has another environment and jobs of
/// its own.
async fn replaced_by_one_of(db: &Db, environment: &str) {
    db.database().operator.set_environment(Some(environment), "anna").await.unwrap();
    db.execute("delete from jobs.worker").await;
}

async fn a_worker_whose_database_is_replaced_by_one_of_another_environment_claims_nothing(db: Db) {
    db.database().operator.set_environment(Some("staging"), "anna").await.unwrap();
    let rounds = Arc::<Rounds>::default();
    let worker = db.worker(registry![MailACustomer]).lease(LEASE).environment("staging").recorder(rounds.clone());
    let worker = Running::start(worker);
    let own = db.enqueue(MailACustomer {}).await;
    db.await_state(own, JobState::Completed).await;

    replaced_by_one_of(&db, "production").await;
    let customers = db.enqueue(MailACustomer {}).await;
    // Its heartbeat is refused, and it tries several times to register.
    rounds.more("check_schema", 4).await;
    assert_eq!(db.record(customers).await.state, JobState::Available);
    assert_eq!(db.number("select count(*) as number from jobs.worker").await, 0);

    // The worker has not ended. It goes on when it has its own database again.
    db.database().operator.set_environment(Some("staging"), "anna").await.unwrap();
    db.await_state(customers, JobState::Completed).await;
    worker.stop().await;
}

async fn a_worker_of_another_environment_is_refused_before_it_is_on_the_list(db: Db) {
    db.database().operator.set_environment(Some("production"), "anna").await.unwrap();
    let id = db.enqueue(MailACustomer {}).await;
    for environment in [None, Some("staging")] {
        let worker = db.worker(registry![MailACustomer]);
        let worker = environment.map_or(db.worker(registry![MailACustomer]), |name| worker.environment(name));
        let refused = worker.build().unwrap().run_until_empty().await.unwrap_err();
        assert!(matches!(refused, WorkerError::Storage(StorageError::Environment(_))), "{refused}");
    }
    assert_eq!(db.number("select count(*) as number from jobs.worker").await, 0);
    assert_eq!(db.record(id).await.state, JobState::Available);
    let empty = db.worker(registry![MailACustomer]).environment("").build().unwrap_err();
    assert!(empty.to_string().contains("environment must not be empty"), "{empty}");
}

async fn a_worker_that_runs_until_nothing_is_left_ends_on_a_frozen_database(db: Db) {
    let id = db.enqueue(MailACustomer {}).await;
    db.database().operator.freeze("anna", "a test").await.unwrap();
    db.work(registry![MailACustomer]).await;
    assert_eq!(db.record(id).await.state, JobState::Available);
    db.database().operator.thaw("anna").await.unwrap();
    db.work(registry![MailACustomer]).await;
    assert_eq!(db.record(id).await.state, JobState::Completed);
}

support::on_each_database! {
    a_worker_whose_database_is_replaced_by_one_of_another_environment_claims_nothing,
    a_worker_of_another_environment_is_refused_before_it_is_on_the_list,
    a_worker_that_runs_until_nothing_is_left_ends_on_a_frozen_database,
}
