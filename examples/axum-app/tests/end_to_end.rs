//! The whole of it: real requests, real workers, two of them killed, and then the books are checked.
//!
//! A web server and three workers share one database. Some tens of clients place orders; the payment of every fifth is
//! refused. Half-way one worker is killed with jobs in its hands and another one is asked to stop. The third must come
//! to an end with everything, and [`claims::AT_THE_END`] must hold in the database. All the while somebody looks for [`claims::NEVER`].

mod claims;
mod clients;
mod figures;
mod watcher;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::clients::serve_clients;
use self::figures::Figures;
use self::watcher::Watcher;
use crate::support::{Db, LIMIT, Process, seen, until};
use crate::web::Server;

/// Rich customers, and one whose credit never reaches.
const PEOPLE: &str = "
    insert into customers (email, credit_cents) select 'rich-' || n || '@example.org', 100000000 from generate_series(0, 49) n;
    insert into customers (email, credit_cents) values ('poor@example.org', 10);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_has_its_effects_whoever_dies() {
    let db = Db::migrated().await;
    db.run(PEOPLE).await;
    let server = Server::start(&db, "2").await;
    let worker = || Process::start(env!("CARGO_BIN_EXE_worker"), &db.url, &["--lease", "3s"], &[]);
    let (mut killed, asked, survivor) = (worker(), worker(), worker());
    until("three workers", async || (db.number("select count(*) from jobs.worker").await == 3).then_some(())).await;

    let start = Instant::now();
    let watcher = Watcher::start(&db).await;
    let half_way = Arc::new(Notify::new());
    let clients = tokio::spawn(serve_clients(server.address.clone(), half_way.clone()));
    tokio::time::timeout(LIMIT, half_way.notified()).await.expect("half of the requests");
    let held = kill_while_it_holds_jobs(&db, &mut killed).await;
    asked.signal("TERM");
    asked.succeeded().await;
    let told = tokio::time::timeout(LIMIT, clients).await.expect("the other half").unwrap();
    let requests_took = start.elapsed();

    // What is left behind when the time is over is for the claims to say.
    let left = "select count(*) from jobs.job where finished_at is null";
    seen(async || (db.number(left).await == 0).then_some(())).await;
    let all_took = start.elapsed();
    let figures = Figures { told, held, requests_took, all_took, watched: watcher.stop().await };
    figures.print(&db).await;
    figures.check(&db).await;
    for process in [server.process, survivor] {
        process.signal("TERM");
        process.succeeded().await;
    }
}

/// Kills the worker at a moment when it holds jobs, and answers how many. Stopped first: a stopped process finishes
/// none between the look and the kill.
async fn kill_while_it_holds_jobs(db: &Db, worker: &mut Process) -> i64 {
    let sql = format!(
        "select count(*) from jobs.job j join jobs.worker w on w.id = j.worker where j.state = 'running' and w.pid = {}",
        worker.pid()
    );
    let held = until("a worker that holds jobs", async || {
        worker.signal("STOP");
        // What it has sent already is still carried out.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let held = db.number(&sql).await;
        if held == 0 {
            worker.signal("CONT");
        }
        (held > 0).then_some(held)
    })
    .await;
    worker.signal("KILL");
    worker.ended().await;
    held
}
