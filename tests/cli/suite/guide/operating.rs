//! The guide's page on operating: one incident, on a database like that of the page.

use std::time::{Duration, Instant};

use super::shell::Shell;
use crate::page::{Page, is_writing};
use crate::support::{Db, Running, worker};

/// 50,000 jobs: 3,000 that failed, 20,000 that completed, and 27,000 of which two run. Returns the worker.
fn an_evening(db: &Db) -> Running {
    db.enqueue_many_with("charge", "default", 2000, r#"{"card": "4000"}"#);
    db.enqueue_many_with("log_in", "default", 1000, r#"{"user": "ada", "password": "hunter2"}"#);
    db.execute("update jobs.ready set max_attempts = 1");
    db.enqueue_many_with("write", "default", 20_000, r#"{"length": 0}"#);
    let start = |queues: &str| {
        let worker = worker("fixture-worker").args(["--queues", queues, "--poll", "100ms"]);
        worker.env("DATABASE_URL", &db.url).env("RUST_BACKTRACE", "0").start()
    };
    let worker = start("default=50");
    await_count(db, &["--state", "available,running"], 0);
    worker.signal("TERM");
    worker.ended(Duration::from_secs(20)).succeeded();
    if is_writing() {
        // So that the page shows rates.
        std::thread::sleep(Duration::from_secs(75));
    }
    db.enqueue_many_with("send_newsletter", "mail", 27_000, r#"{"list": "customers"}"#);
    let worker = start("default=4,mail=2");
    await_count(db, &["--state", "running"], 2);
    // What it has prefetched, it gives back.
    std::thread::sleep(Duration::from_secs(3));
    await_count(db, &["--state", "running"], 2);
    worker
}

/// Waits until this many jobs match.
fn await_count(db: &Db, filter: &[&str], jobs: u64) {
    let begun = Instant::now();
    while db.json(&[&["list", "--count"], filter].concat())["jobs"] != jobs {
        assert!(begun.elapsed() < Duration::from_secs(300), "there are never {jobs} jobs with {filter:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn the_page_on_operating_shows_real_outputs() {
    let db = Db::postgres().migrated();
    let mut worker = an_evening(&db);
    let shell = Shell::new(&db);
    Page::read("docs/guide/operating.md").compare(|command| shell.run(command));
    worker.kill();
}
