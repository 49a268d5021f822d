//! The guide's page on operating: one incident, on a database like that of the page.

use std::time::Duration;

use super::shell::Shell;
use crate::page::{Page, is_writing};
use crate::support::{Db, Running, until, worker};

/// Only these of the 20,000 completed jobs have run, unless the page is written: its rates are those of all of them.
const RAN: u64 = 200;

/// 50,000 jobs: 3,000 that failed, 20,000 that completed, and 27,000 of which two run. Returns the worker.
fn an_evening(db: &Db) -> Running {
    db.enqueue_many_with("charge", "default", 2000, r#"{"card": "4000"}"#);
    db.enqueue_many_with("log_in", "default", 1000, r#"{"user": "ada", "password": "hunter2"}"#);
    db.execute("update jobs.ready set max_attempts = 1");
    let ran = if is_writing() { 20_000 } else { RAN };
    db.enqueue_many_with("write", "default", ran, r#"{"length": 0}"#);
    let start = |queues: &str| {
        let worker = worker("fixture-worker").args(["--queues", queues, "--poll-interval", "100ms"]);
        worker.env("DATABASE_URL", &db.url).env("RUST_BACKTRACE", "0").start()
    };
    let worker = start("default=50");
    await_count(db, &["--state", "available,running"], 0);
    worker.signal("TERM");
    worker.ended().succeeded();
    // The others are copies of one that has run, with the ids that follow.
    db.execute(&format!(
        "insert into jobs.finished select copy.*
         from (select * from jobs.finished where kind = 'write' limit 1) one, generate_series({ran} + 1, 20000) n,
              jsonb_populate_record(null::jobs.finished, to_jsonb(one) || jsonb_build_object('id', 3000 + n)) copy;
         select setval('jobs.job_id', 23000)",
    ));
    if is_writing() {
        // So that the page shows rates.
        std::thread::sleep(Duration::from_secs(75));
    }
    db.enqueue_many_with("send_newsletter", "mail", 27_000, r#"{"list": "customers"}"#);
    let worker = start("default=4,mail=2");
    await_count(db, &["--state", "running"], 2);
    worker
}

/// Waits until this many jobs match.
fn await_count(db: &Db, filter: &[&str], jobs: u64) {
    until(|| {
        let count = db.json(&[&["list", "--count"], filter].concat())["jobs"].clone();
        if count == jobs { Ok(()) } else { Err(format!("{count} jobs with {filter:?}, expected {jobs}")) }
    });
}

#[test]
fn the_page_on_operating_shows_real_outputs() {
    let db = Db::postgres().migrated();
    let mut worker = an_evening(&db);
    let shell = Shell::new(&db);
    Page::read("docs/guide/operating.md").compare(|command| shell.run(command));
    worker.kill();
}
