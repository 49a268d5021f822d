// These programs are built with the feature `sqlite` only.

use diesel::{PgConnection, SqliteConnection};
use diesel_async::AsyncPgConnection;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::drain;

#[job]
async fn of_an_async_job(conn: &mut AsyncPgConnection) {
    let _ = conn;
}

#[job]
fn of_a_plain_job(conn: &mut PgConnection) {
    let _ = conn;
}

#[job]
async fn of_the_other_kind_of_job(conn: &mut SqliteConnection) {
    let _ = conn;
}

#[job]
fn greet(name: String) {
    let _ = name;
}

fn enqueues(conn: &mut PgConnection) {
    Greet::new("you").enqueue(conn).unwrap();
}

async fn enqueues_async(conn: &mut AsyncPgConnection) {
    Greet::new("you").enqueue(conn).await.unwrap();
}

fn migrates(conn: &mut PgConnection) {
    diesel_jobs::migrate(conn).unwrap();
}

fn tests(conn: &mut PgConnection) {
    drain(conn).run().unwrap();
}

fn a_test() {
    use diesel_jobs::__private::{TestSettings, run_async_test};

    run_async_test::<AsyncPgConnection, _>(TestSettings { package: ".", migrations: None }, async |_| {});
}

fn main() {}
