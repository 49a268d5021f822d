//! How soon workers follow what operators do, and the figures of a load test. Nothing else runs beside these tests.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../suite/support/mod.rs"]
#[macro_use]
#[expect(dead_code, unused_imports, reason = "the suite uses the rest")]
mod support;

use std::time::{Duration, Instant};

use fixture_app::{Greet, HOUR, Refund, Wait};

use self::support::{Gate, Scratch, worker};

/// What an operator calls at once.
const SOON: Duration = Duration::from_secs(5);

#[track_caller]
fn took_less(begun: Instant, limit: Duration) {
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

fn greet() -> Greet {
    Greet { name: "x".to_owned() }
}

on_each_database! {
    fn a_limit_that_is_reset_is_followed_soon(db) {
        let db = db.migrated();
        db.run(&["limits", "set", "stripe", "0", "--actor", "ada"]).succeeded();
        let _worker = db.start(&["--queues", "default=2", "--poll-interval", "100ms"]);
        let gate = Gate::closed();
        gate.open();
        let id = db.enqueue(Refund { file: gate.file() });
        db.await_state(db.enqueue(Wait { millis: 0 }), "completed");
        db.await_state(id, "held");
        let begun = Instant::now();
        db.run(&["limits", "reset", "stripe", "--actor", "ada"]).succeeded();
        db.await_state(id, "completed");
        took_less(begun, SOON);
    }

    fn a_queue_that_is_resumed_is_served_soon(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "mail=2,default=2"]);
        worker.await_line("worker started");
        db.run(&["queues", "pause", "mail", "--actor", "ada"]).succeeded();
        worker.await_line("queue `mail` is paused");
        let id = db.enqueue(greet());
        let begun = Instant::now();
        db.run(&["queues", "resume", "mail", "--actor", "ada"]).succeeded();
        db.await_state(id, "completed");
        took_less(begun, SOON);
    }

    fn a_thawed_database_is_served_soon(db) {
        let db = db.migrated();
        db.run(&["freeze", "--reason", "an incident", "--actor", "ada"]).succeeded();
        let mut worker = db.start(&["--queues", "mail=2", "--lease", "2s"]);
        worker.await_line("by ada: an incident");
        let waiting: Vec<i64> = (0..20).map(|_| db.enqueue(greet())).collect();
        let begun = Instant::now();
        db.run(&["thaw", "--actor", "ada"]).succeeded();
        waiting.iter().for_each(|id| drop(db.await_state(*id, "completed")));
        took_less(begun, 3 * SOON);
    }

    fn a_worker_stops_soon_after_its_grace_period_and_at_a_second_signal(db) {
        let db = db.migrated();
        for (grace, again) in [("300ms", false), ("1h", true)] {
            let id = db.enqueue(Wait { millis: HOUR });
            let mut worker = db.start(&["--grace-period", grace]);
            db.await_state(id, "running");
            let begun = Instant::now();
            worker.signal("TERM");
            if again {
                worker.await_line("SIGTERM");
                worker.signal("INT");
            }
            worker.ended().succeeded();
            took_less(begun, SOON);
            db.run(&["cancel", &id.to_string()]).succeeded();
        }
    }

    fn a_load_test_reports_rates_that_can_be(db) {
        let scratch = Scratch::new();
        let chart = scratch.path().join("chart.svg");
        let bench = ["bench", "--json", "--yes", "--time", "5s", "--connections", "1", "--processes", "1", "--work", "50ms", "--svg"];
        let report = worker("fixture-worker").args(bench).args([&chart]).env("DATABASE_URL", &db.url).run().succeeded().json();
        let rates = |series: &str| -> Vec<f64> {
            report[series]["steps"].as_array().unwrap().iter().map(|step| step["jobs_per_second"].as_f64().unwrap()).collect()
        };
        assert!(["enqueue", "batches", "work"].iter().flat_map(|series| rates(series)).all(|rate| rate > 0.0), "{report}");
        assert!(rates("work").iter().all(|rate| *rate <= 16.0 / 0.05 * 1.2), "16 at once sleep 50 ms each: {report}");
    }
}
