//! A worker whose log nobody reads, such as behind a log collector that hangs.

use std::io::Read as _;

use fixture_app::{Charge, WaitFor};

use crate::support::{Db, Gate, Prepared, until, worker};

/// Enough failures for their lines to fill any pipe, and the worker's own queue of lines.
const FAILURES: u64 = 6000;

fn prepared(db: &Db, args: &[&str]) -> Prepared {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url)
}

on_each_database! {
    fn a_log_that_nobody_reads_stops_neither_jobs_nor_the_shutdown(db) {
        let db = db.migrated();
        db.enqueue_many_with("charge", "default", FAILURES, r#"{"card": "4111"}"#);
        let (worker, mut log) = prepared(&db, &["run", "--poll-interval", "100ms", "--grace-period", "1h"]).start_unread();
        let last = db.enqueue(Charge { card: "4111".to_owned() });
        db.await_state(last, "discarded");
        let gate = Gate::closed();
        let id = db.enqueue(WaitFor { file: gate.file() });
        db.await_state(id, "running");
        worker.signal("TERM");
        // It may have ended already, if the job had not begun.
        until(|| {
            let workers = db.json(&["workers"]);
            let is_asked = workers[0].is_null() || workers[0]["draining_at"].is_string();
            is_asked.then_some(()).ok_or(workers)
        });
        gate.open();
        worker.ended().succeeded();
        // A job that had not begun when the worker began to drain was released.
        let job = db.json(&["show", &id.to_string()]);
        let is_fine = job["state"] == "completed" || job["state"] == "available" && job["attempt"] == 0;
        assert!(is_fine && job["crashes"] == 0, "{job}");
        assert_eq!(db.json(&["workers"]).as_array().unwrap().len(), 0);
        // What the pipe holds are the first lines, each complete.
        let mut first = String::new();
        log.read_to_string(&mut first).unwrap();
        assert!(first.contains("worker started") && !first.contains("worker stopped"), "{}", first.len());
    }
}
