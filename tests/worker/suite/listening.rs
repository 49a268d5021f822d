//! The server's queue of notifications. All databases of a server share it, so the test has a server of its own.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use cluster::{Own, Server};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Database;
use support::{Conn, LIMIT, until};

use crate::blocked_threads::{Blocked, with_one_thread};

const LISTENS: &str = "select count(*) as number from pg_stat_activity where query = 'listen jobs' and state = 'idle'";
const RUNNING: &str = "select count(*) as number from jobs.job where state = 'running'";
/// 32 MB, many times what the sockets between the server and a listener keep while nobody reads.
const NOTIFY: &str = "select pg_notify('jobs', lpad(n::text, 7990, ' ')) from generate_series(1, 4000) n";
const UNREAD: &str = "select (pg_notification_queue_usage() > 0)::int::bigint as number";

/// A server whose queue is full refuses each commit that notifies, in all its databases.
#[tokio::test]
async fn handlers_that_block_every_thread_leave_no_notification_unread() {
    // The server's user must be able to enter it, or its files are elsewhere.
    let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
    let server = Own::at(dir.path()).unwrap();
    server.prepare().unwrap();
    let url = Server::url(server.launch(None, "").unwrap());
    Database::open(&url, 0).await.unwrap().migrator.up().await.unwrap();
    let mut conn = Conn::Postgres(Box::new(AsyncPgConnection::establish(&url).await.unwrap()));

    let worker = with_one_thread(&url, &["run"]);
    until("the worker to listen", async || (conn.number(LISTENS).await == 1).then_some(())).await;
    let blocked = Blocked::enqueue(&mut conn, 1, Vec::new()).await;
    blocked.begun().await;
    conn.execute(NOTIFY).await;
    until("the worker to read its notifications", async || (conn.number(UNREAD).await == 0).then_some(())).await;
    assert_eq!(conn.number(RUNNING).await, 1, "the handler blocks the thread");

    blocked.let_go();
    worker.signal("TERM");
    assert_eq!(worker.ended(LIMIT).code, 0);
}
