//! The jobs' migrations together with the desk's.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_jobs::testing::TestDatabase;
use programs::{Process, findings};

use crate::database::database;

const WORKER: &str = env!("CARGO_BIN_EXE_desk-worker");

#[tokio::test]
async fn the_program_applies_them_all() {
    let database = TestDatabase::builder().create().await.unwrap();
    let mut conn = PgConnection::establish(database.url()).unwrap();
    conn.batch_execute("drop schema jobs cascade").unwrap();
    Process::start(env!("CARGO_BIN_EXE_desk-migrate"), database.url(), &[], &[]).succeeded().await;
    conn.batch_execute("select from tickets; select from jobs.job").unwrap();
}

#[tokio::test]
async fn the_doctor_finds_nothing_to_complain_about() {
    let database = database();
    assert_eq!(findings(WORKER, database.url()), [""; 0]);
}
