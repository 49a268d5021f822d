//! The whole system: real requests, and real workers of which one is killed and one is asked to stop. Then the database
//! is checked.
//!
//! A web server and three workers share one database. Some tens of clients place orders. The payment of every fifth
//! order is refused. Half-way, one worker is killed while it holds jobs, and another one is asked to stop. The third
//! one must run all remaining jobs, and [`claims::AT_THE_END`] must hold in the database. During the whole test
//! [`claims::NEVER`] is queried repeatedly.

mod claims;
mod clients;
mod figures;
mod watcher;

use std::sync::Arc;
use std::time::Instant;

use programs::{LIMIT, Process, try_until, until};
use tokio::sync::Notify;

use self::clients::serve_clients;
use self::figures::Figures;
use self::watcher::Watcher;
use crate::database::Db;
use crate::web::Server;

/// Customers with a high credit, and one whose credit is always too low.
const PEOPLE: &str = "
    insert into customers (email, credit_cents) select 'rich-' || n || '@example.org', 100000000 from generate_series(0, 49) n;
    insert into customers (email, credit_cents) values ('poor@example.org', 10);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_has_its_effects_whoever_dies() {
    let db = Db::migrated().await;
    db.run(PEOPLE).await;
    let server = Server::start(&db, "2").await;
    let worker = |name: &str| {
        let mark = if db.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{mark}application_name={name}", db.url());
        Process::start(env!("CARGO_BIN_EXE_worker"), &url, &["--lease", "1h"], &[])
    };
    let (mut killed, asked, survivor) = (worker(KILLED), worker("asked"), worker("survivor"));
    until("three workers", async || (db.number("select count(*) from jobs.worker").await == 3).then_some(())).await;

    let start = Instant::now();
    let watcher = Watcher::start(&db).await;
    let half_way = Arc::new(Notify::new());
    let clients = tokio::spawn(serve_clients(server.address.clone(), half_way.clone()));
    tokio::time::timeout(LIMIT, half_way.notified()).await.expect("half of the requests");
    let held = kill_while_it_holds_jobs(&db, &mut killed).await;
    watcher.checked().await;
    db.run(&format!(
        "update jobs.worker set heartbeat_at = heartbeat_at - interval '1 day' where pid = {}",
        killed.pid()
    ))
    .await;
    asked.signal("TERM");
    asked.succeeded().await;
    watcher.checked().await;
    let answers = tokio::time::timeout(LIMIT, clients).await.expect("the other half").unwrap();
    let requests_took = start.elapsed();

    // Jobs that are left after the time limit violate the claims below.
    let left = "select count(*) from jobs.job where finished_at is null";
    try_until(async || (db.number(left).await == 0).then_some(())).await;
    let all_took = start.elapsed();
    let figures = Figures { answers, held, requests_took, all_took, exceptions: watcher.stop().await };
    figures.print(&db).await;
    figures.check(&db).await;
    for process in [server.process, survivor] {
        process.signal("TERM");
        process.succeeded().await;
    }
}

/// The name of the sessions of the worker that is killed.
const KILLED: &str = "killed";

/// Kills the worker while it holds jobs, and returns how many. It is suspended first, so that it finishes none between
/// the query and the kill.
async fn kill_while_it_holds_jobs(db: &Db, worker: &mut Process) -> i64 {
    let sql = format!(
        "select count(*) from jobs.job j join jobs.worker w on w.id = j.worker where j.state = 'running' and w.pid = {}",
        worker.pid()
    );
    until("a worker that holds jobs", async || {
        worker.signal("STOP");
        let holds_jobs = db.number(&sql).await > 0;
        if !holds_jobs {
            worker.signal("CONT");
        }
        holds_jobs.then_some(())
    })
    .await;
    worker.signal("KILL");
    worker.ended().await;
    // Until then the server may execute what the worker had sent.
    let sessions = format!("select count(*) from pg_stat_activity where application_name = '{KILLED}'");
    until("the end of its sessions", async || (db.number(&sessions).await == 0).then_some(())).await;
    db.number(&sql).await
}
