//! Handlers that do not end: they are ended by the worker's own timeout, or reported in its log.

use fixture_app::{HOUR, Wait};
use serde_json::Value;

use crate::support::{Db, worker};

fn is_timeout(job: &Value, limit: &str) {
    let failure = &job["errors"][0];
    assert_eq!(failure["kind"], "timeout", "{job}");
    assert!(failure["message"].as_str().unwrap().contains(limit), "{job}");
}

on_each_database! {
    fn an_attempt_ends_at_the_workers_timeout(db) {
        let db = db.migrated();
        for (args, variable, limit) in [(&["--timeout", "200ms"][..], "1h", "200ms"), (&[], "300ms", "300ms")] {
            let id = db.enqueue(Wait { millis: HOUR });
            let running = worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_TIMEOUT", variable);
            let running = running.start();
            is_timeout(&db.await_failure(id), limit);
            running.signal("TERM");
            running.ended().succeeded();
            db.run(&["cancel", &id.to_string()]).succeeded();
        }
    }
}

/// Only attempts of at least a minute are reported as long.
#[test]
fn a_worker_warns_of_an_attempt_far_beyond_its_kinds_usual_time() {
    let db = Db::sqlite().migrated();
    let quick = db.enqueue(Wait { millis: 20 });
    let mut running = db.start(&[]);
    db.await_state(quick, "completed");
    let hangs = db.enqueue(Wait { millis: HOUR });
    let line = running.await_line("far longer than");
    for part in [
        "WARN",
        &format!("job {hangs}"),
        "`wait`",
        "queue `default`",
        &format!("`worker cancel {hangs}`"),
        "`timeout`",
        "--timeout",
    ] {
        assert!(line.contains(part), "{part:?} is missing: {line}");
    }
    // The command that the message names works.
    db.run(&["cancel", &hangs.to_string()]).succeeded();
    let next = db.enqueue(Wait { millis: 1 });
    db.await_state(next, "completed");
    running.signal("TERM");
    let run = running.ended().succeeded();
    assert_eq!(run.stderr.matches("far longer than").count(), 1, "{run:#?}");
}
