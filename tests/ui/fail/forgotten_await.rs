#![deny(unused_must_use)]

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{drain, perform};
use diesel_jobs::{Change as _, JobId, assert_enqueued, enqueue_all};

type Connection = SyncConnectionWrapper<SqliteConnection>;

#[job]
async fn greet(name: String) {
    let _ = name;
}

async fn enqueues(conn: &mut Connection) {
    Greet::new("you").enqueue(conn);
    enqueue_all(conn, [Greet::new("you")]);
}

async fn changes_and_reads(conn: &mut Connection, id: JobId, ctx: &JobContext) {
    id.cancel(conn);
    diesel_jobs::migrate(conn);
    ctx.complete_in(conn);
}

async fn tests(conn: &mut Connection) {
    assert_enqueued!(conn, Greet { name: "you" });
    drain(conn).run();
    perform(Greet::new("you")).on(conn);
}

fn of_a_sync_connection(conn: &mut SqliteConnection) {
    Greet::new("you").enqueue(conn);
}

fn main() {}
