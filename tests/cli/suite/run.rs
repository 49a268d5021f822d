//! `run`: jobs are run, and signals have their effect.

use fixture_app::{Greet, HOUR, ImportFeed, Wait, WaitFor};
use serde_json::Value;

use crate::support::http::{address, get};
use crate::support::proxy::Proxy;
use crate::support::{Db, Gate, until, worker};

on_each_database! {
    fn jobs_are_run_without_naming_a_command(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "ada@example.org".to_owned() });
        let worker = db.start(&[]);
        db.await_state(id, "completed");
        worker.signal("INT");
        let run = worker.ended().succeeded().never_said("ada@example.org");
        assert_eq!(run.stdout, "", "logs go to standard error");
    }

    fn sigterm_drains_and_exits_0(db) {
        let db = db.migrated();
        let gate = Gate::closed();
        let id = db.enqueue(WaitFor { file: gate.file() });
        let mut worker = db.start(&["run", "--poll-interval", "100ms", "--grace-period", "1h"]);
        db.await_state(id, "running");
        worker.signal("TERM");
        worker.await_line("SIGTERM");
        let left = db.enqueue(Wait { millis: 1 });
        until(|| match db.run(&["workers"]).succeeded().stdout {
            text if text.contains("draining") => Ok(()),
            text => Err(text),
        });
        assert!(db.json(&["workers"])[0]["draining_at"].is_string());
        let why = db.json(&["why", &left.to_string()]).to_string();
        assert!(why.contains("drains or was asked to be quiet or to stop"), "{why}");
        gate.open();
        worker.ended().succeeded();
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "completed");
        assert_eq!(db.json(&["show", &left.to_string()])["state"], "available");
        assert_eq!(db.json(&["stats"])["workers"], Value::Array(vec![]), "the worker took itself off the list");
    }

    fn a_failure_is_logged_with_its_attempt_and_its_time_in_whole_microseconds(db) {
        let db = db.migrated();
        db.enqueue(ImportFeed { file: "/no/such/feed".to_owned() });
        db.enqueue(Wait { millis: 30 });
        let mut worker = worker("fixture-worker").args(["--log", "json", "--poll-interval", "100ms"]).env("DATABASE_URL", &db.url)
            .env("RUST_LOG", "diesel_jobs=debug").start();
        let mut lines = std::collections::BTreeMap::new();
        while lines.len() < 3 {
            let line: Value = serde_json::from_str(&worker.await_line("job.run_ms")).unwrap();
            let micros = line["job.run_ms"].as_f64().unwrap() * 1e3;
            assert!((micros - micros.round()).abs() < 1e-6, "{line}");
            lines.insert(line["level"].as_str().unwrap().to_owned(), line);
        }
        assert!(lines.contains_key("DEBUG"), "{lines:?}");
        for (level, attempt) in [("WARN", 1), ("ERROR", 2)] {
            let line = &lines[level];
            assert_eq!((&line["job.attempt"], &line["job.max_attempts"]), (&attempt.into(), &2.into()), "{line}");
        }
    }

    fn workers_show_the_version_of_the_application_unless_another_is_given(db) {
        let db = db.migrated();
        let (own, commit) = (env!("CARGO_PKG_VERSION"), "5f2a91c");
        let option = ["run", "--program-version", commit];
        for (args, variable, version) in [(&["run"][..], "", own), (&["run"], commit, commit), (&option, "x", commit)] {
            let worker = worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_VERSION", variable).start();
            until(|| match db.json(&["workers"]) {
                list if list[0]["version"] == version => Ok(()),
                list => Err(list.to_string()),
            });
            worker.signal("TERM");
            worker.ended().succeeded();
        }
    }

    fn the_grace_period_ends_and_the_attempt_is_given_back(db) {
        let db = db.migrated();
        let id = db.enqueue(Wait { millis: HOUR });
        for signal in ["TERM", "INT", "QUIT", "HUP"] {
            let worker = db.start(&["--grace-period", "300ms"]);
            db.await_state(id, "running");
            worker.signal(signal);
            worker.ended().succeeded().complained(&[&format!("SIG{signal}")]);
            let job = db.json(&["show", &id.to_string()]);
            let given_back = (&job["state"], &job["attempt"], &job["crashes"]);
            assert_eq!(given_back, (&Value::from("available"), &Value::from(0), &Value::from(0)), "{signal}");
        }
    }

    fn other_signals_are_logged_and_nohup_keeps_its_meaning(db) {
        let db = db.migrated();
        let mut worker = worker("fixture-worker").env("DATABASE_URL", &db.url).under_nohup().start();
        worker.await_line("worker started");
        worker.signal("HUP");
        for signal in ["USR1", "USR2"] {
            worker.signal(signal);
            worker.await_line(&format!("SIG{signal} is ignored"));
        }
        let id = db.enqueue(Wait { millis: 1 });
        db.await_state(id, "completed");
        worker.signal("TERM");
        worker.ended().succeeded().never_said("SIGHUP");
    }

    fn a_second_signal_stops_at_once(db) {
        let db = db.migrated();
        let id = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&["--grace-period", "1h"]);
        db.await_state(id, "running");
        worker.signal("TERM");
        worker.await_line("SIGTERM");
        worker.signal("INT");
        worker.ended().succeeded();
        let job = db.json(&["show", &id.to_string()]);
        assert_eq!((&job["state"], &job["attempt"]), (&Value::from("available"), &Value::from(0)));
    }

    fn queues_given_replace_those_of_the_set_up(db) {
        let db = db.migrated();
        let left = db.enqueue(Greet { name: "x".to_owned() });
        let done = db.enqueue(Wait { millis: 1 });
        let worker = db.start(&["--queues", "default=2,adhoc", "--poll-interval", "50ms"]);
        db.await_state(done, "completed");
        worker.signal("TERM");
        worker.ended().succeeded();
        assert_eq!(db.json(&["show", &left.to_string()])["state"], "available");
    }

    fn log_lines_for_machines_are_json(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--log", "json"]);
        worker.await_line("\"level\":\"INFO\"");
        worker.signal("TERM");
        let run = worker.ended().succeeded();
        for line in run.stderr.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
        }
    }
}

#[test]
fn connections_are_closed_at_the_age_that_the_operator_chooses() {
    let db = Db::postgres().migrated();
    let args = ["run", "--max-lifetime", "1s", "--poll-interval", "100ms", "--listen", "127.0.0.1:0"];
    let mut worker = db.start(&args);
    let address = address(&mut worker);
    until(|| if get(&address, "/readyz").status == 200 { Ok(()) } else { Err("the worker is not ready") });
    let sessions = "pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    let newest = db.text(&format!("select max(backend_start)::text as text from {sessions}"));
    let old = format!("{sessions} and backend_start <= '{newest}'");
    until(|| match db.count(&old) {
        0 => Ok(()),
        sessions => Err(format!("{sessions} sessions are as old as the worker")),
    });
    until(|| if db.count(sessions) > 0 { Ok(()) } else { Err("the worker has no others") });
    worker.signal("INT");
    worker.ended().succeeded();
}

#[test]
fn ends_that_the_database_never_learns_of_are_an_error() {
    let db = Db::postgres().migrated();
    let id = db.enqueue(Wait { millis: HOUR });
    let proxy = Proxy::start(&db.url);
    let worker =
        worker("fixture-worker").args(["run", "--grace-period", "0s"]).env("DATABASE_URL", proxy.url()).start();
    db.await_state(id, "running");
    proxy.cut();
    worker.signal("TERM");
    worker.ended().exited(1).complained(&["before the ends of all attempts could be written (left: 1)"]);
    assert_eq!(db.json(&["show", &id.to_string()])["state"], "running");
}
