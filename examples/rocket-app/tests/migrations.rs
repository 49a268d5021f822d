//! The jobs' migrations together with the library's.

use diesel_async::SimpleAsyncConnection as _;
use diesel_jobs::testing::TestDatabase;
use programs::{Process, findings};

use crate::database::{connection, database};

const WORKER: &str = env!("CARGO_BIN_EXE_library-worker");

#[tokio::test]
async fn the_program_applies_them_all() {
    let database = TestDatabase::builder().create().await.unwrap();
    let mut conn = connection(&database).await;
    conn.batch_execute("drop schema jobs cascade").await.unwrap();
    Process::start(env!("CARGO_BIN_EXE_library-migrate"), database.url(), &[], &[]).succeeded().await;
    conn.batch_execute("select from loans; select from jobs.job").await.unwrap();
}

#[tokio::test]
async fn the_doctor_finds_nothing_to_complain_about() {
    let database = database().await;
    assert_eq!(findings(WORKER, database.url()), [""; 0]);
}
