//! The commands for limits, sequences, permits and unique keys, with real workers.

use fixture_app::{Greet, Refund, Ship, Welcome};
use jobs::rules::{Limit, Rate};
use jobs::{Job as _, NewJob};
use serde_json::{Value, json};

use crate::support::{Db, Gate, Run, until, worker};

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// Runs a command as the user `anna`. The machine of the tests may name no user.
fn run(db: &Db, args: &[&str]) -> Run {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("SUDO_USER", "").env("USER", "anna").run()
}

fn json(db: &Db, args: &[&str]) -> Value {
    run(db, &[args, &["--json"]].concat()).succeeded().json()
}

fn state(db: &Db, id: i64) -> Value {
    json(db, &["show", &id.to_string()])["state"].clone()
}

fn text(db: &Db, args: &[&str]) -> String {
    run(db, args).succeeded().stdout
}

on_each_database! {
    fn rates_that_hold_jobs_back_stand_below_the_limits(db) {
        let db = db.migrated();
        assert_eq!(json(&db, &["limits"])["rates"], json!([]));
        let rated = |key: &str| Greet { name: "ada".to_owned() }.rate(Rate::new("api", 6, HOUR).burst(2).key(key));
        for key in ["b", "a", "a"] {
            db.enqueue(rated(key));
        }
        let listed = text(&db, &["limits"]);
        let (_, rates) = listed.split_once("\n\n").unwrap_or_else(|| panic!("{listed}"));
        let lines: Vec<&str> = rates.lines().collect();
        assert!(lines[0].starts_with("RATE  KEY    STARTS"), "{rates}");
        for (line, start, held) in [(lines[1], "api   [\"a\"]  6 in 1h, 2 at once     2  20", 2), (lines[2], "api   [\"b\"]  6 in 1h, 2 at once     1  20", 1)] {
            assert!(line.starts_with(start) && line.ends_with("Z  now"), "{held}: {rates}");
        }
        let rates = &json(&db, &["limits"])["rates"];
        assert_eq!((&rates[0]["name"], &rates[0]["key"], &rates[0]["held"]["jobs"]), (&json!("api"), &json!("[\"a\"]"), &json!(2)));
    }

    fn a_limit_is_set_listed_and_reset(db) {
        let db = db.migrated();
        let set = run(&db, &["limits", "set", "stripe", "0", "--reason", "the bank is closed", "--actor", "ada"]).succeeded();
        assert!(set.stdout.starts_with("limit `stripe`: set by ada to 0 at 20") && set.stdout.ends_with(": the bank is closed\n"), "{}", set.stdout);
        assert!(!set.stderr.contains("warning"), "{}", set.stderr);
        let _worker = db.start(&["--queues", "default=2", "--poll-interval", "100ms"]);
        let gate = Gate::closed();
        gate.open();
        let id = db.enqueue(Refund { file: gate.file() });
        let number = id.to_string();
        // The worker claims in order, and has passed over the refund when it has run a later job.
        for order_id in [1, 2] {
            db.await_state(db.enqueue(Ship { order_id, fails: false }), "completed");
            db.await_state(id, "held");
        }
        for command in ["retry", "run-now"] {
            let answer = text(&db, &[command, &number]);
            assert_eq!(answer, format!("job {number}: due now, and held: it waits for the limit `stripe`; `worker why {number}` says more\n"));
        }
        let why = text(&db, &["why", &number]);
        assert!(why.contains("limit `stripe` allows 0 at once for all jobs ") && why.contains("(set by ada to 0 at ") && why.contains("worker limits reset stripe"), "{why}");
        let shown = text(&db, &["show", &number]);
        assert!(shown.contains("5 at once of `stripe`, all jobs; set by ada to 0 at "), "{shown}");
        let listed = &json(&db, &["limits"])["limits"].clone();
        assert_eq!((&listed[0]["name"], &listed[0]["declared"], &listed[0]["held"]["jobs"]), (&json!("stripe"), &json!([5]), &json!(1)));
        assert_eq!((&listed[0]["set"]["most"], &listed[0]["set"]["by"], &listed[0]["set"]["reason"]), (&json!(0), &json!("ada"), &json!("the bank is closed")));
        assert_eq!(listed[0]["permits"], json!({"jobs": 0, "is_exact": true}));
        let again = text(&db, &["limits", "set", "stripe", "0", "--actor", "bert"]);
        assert!(again.contains("`stripe` already: set by ada to 0"), "{again}");

        assert_eq!(text(&db, &["limits", "reset", "stripe"]), "limit `stripe`: as the code says\n");
        db.await_state(id, "completed");
        assert_eq!(json(&db, &["limits", "reset", "stripe"]), json!({"changed": false, "name": "stripe", "set": null}));
        let audit = json(&db, &["audit"]);
        let told = |place: usize| (audit[place]["action"].clone(), audit[place]["actor"].clone(), audit[place]["target"].clone());
        assert_eq!(told(0), (json!("reset_limit"), json!("anna"), json!("limit stripe")));
        assert_eq!(told(1), (json!("run_now"), json!("anna"), json!(format!("job {number}"))));
        assert_eq!(told(2), (json!("retry"), json!("anna"), json!(format!("job {number}"))));
        assert_eq!(told(3), (json!("set_limit"), json!("ada"), json!("limit stripe")));
        assert_eq!(audit.as_array().unwrap().len(), 4, "what changed nothing is not in the audit");
    }

    fn numbers_and_names_that_no_limit_can_have_are_refused(db) {
        let db = db.migrated();
        for wrong in ["many", "10001", "-1", "1.5"] {
            run(&db, &["limits", "set", "stripe", wrong]).exited(2);
        }
        run(&db, &["limits", "set", "stripe", "10001"]).exited(2).complained(&["from 0 to 10000"]);
        run(&db, &["limits", "set", "", "1"]).exited(2).complained(&["must not be empty"]);
        // The program says that it is a sequence, although no job of it is there.
        run(&db, &["limits", "set", "orders", "3"]).exited(2).complained(&["`orders` is a sequence"]);
        run(&db, &["limits", "reset", "orders"]).exited(2).complained(&["`orders` is a sequence"]);
        assert!(json(&db, &["limits"])["limits"][0]["set"].is_null());
        let add = ["schedules", "add", "nightly", "ship", "--cron", "0 0 2 * * *", "--args", r#"{"order_id":7,"fails":false}"#, "--actor", "ada"];
        run(&db, &add).exited(2).complained(&["the jobs of kind `ship` are a sequence", "`concurrency(limit = 1)`"]);
        assert!(!text(&db, &["schedules"]).contains("nightly"));
        let unknown = run(&db, &["limits", "set", "strype", "3"]).succeeded().stderr;
        assert!(unknown.contains("has no limit `strype`"), "{unknown}");
    }

    fn a_halted_sequence_is_listed_and_skipped_or_retried(db) {
        let db = db.migrated();
        assert_eq!(text(&db, &["sequences"]), "no sequence is halted\n");
        let _worker = db.start(&["--queues", "default=2", "--poll-interval", "100ms"]);
        let first = db.enqueue(Ship { order_id: 7, fails: true });
        let ids = [7, 7, 8].map(|order_id| db.enqueue(Ship { order_id, fails: false }));
        db.await_state(first, "discarded");
        db.await_state(ids[2], "completed");
        let listed = text(&db, &["sequences"]);
        let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!((words[0], words[1], words[2], words[words.len() - 1]), ("orders", "[7]", &*first.to_string(), "2"), "{listed}");
        let halted = json(&db, &["sequences"])[0].clone();
        assert_eq!((&halted["name"], &halted["key"], &halted["job"], &halted["waiting"]), (&json!("orders"), &json!("[7]"), &json!(first), &json!(2)));
        let why = text(&db, &["why", &ids[0].to_string()]);
        assert!(why.contains("sequence `orders` is halted for key [7] since") && why.contains("worker sequences skip orders '[7]'"), "{why}");
        let shown = text(&db, &["show", &first.to_string()]);
        let line = format!("halts        `orders`, key [7]: 2 jobs wait behind it; `worker why {first}` says what to do");
        assert!(shown.contains(&line), "{shown}");
        assert_eq!(json(&db, &["show", &first.to_string()])["halts"]["waiting"], json!(2));
        let findings = run(&db, &["doctor", "--json"]).json();
        assert!(findings.to_string().contains("halted_sequence"), "{findings}");

        let other = run(&db, &["sequences", "skip", "orders", "[8]"]).exited(1).stdout;
        assert!(other.contains("sequence `orders`, key [8]: not halted"), "{other}");
        let skipped = text(&db, &["sequences", "skip", "orders", "7", "--actor", "ada"]);
        assert_eq!(skipped, "sequence `orders`, key [7]: continues without the discarded job\n");
        db.await_state(ids[0], "completed");
        db.await_state(ids[1], "completed");
        assert_eq!(json(&db, &["sequences"]), json!([]));
        let audit = json(&db, &["audit"])[0].clone();
        assert_eq!((&audit["action"], &audit["actor"], &audit["target"]), (&json!("skip"), &json!("ada"), &json!("sequence orders")));
        assert_eq!(state(&db, first), "discarded");
        assert!(json(&db, &["show", &first.to_string()])["halts"].is_null(), "the sequence is not halted any more");

        // A retry runs the discarded job again, which fails and halts the sequence again.
        text(&db, &["retry", &first.to_string()]);
        let last = db.enqueue(Ship { order_id: 7, fails: false });
        until(|| (json(&db, &["sequences"])[0]["job"] == first).then_some(()).ok_or("the sequence does not halt"));
        assert_eq!(json(&db, &["sequences", "skip", "orders", "[7]"]), json!({"changed": true, "name": "orders", "key": "[7]"}));
        db.await_state(last, "completed");
    }

    fn a_permit_is_released_unless_its_job_needs_it(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "default=2", "--poll-interval", "100ms"]);
        let gate = Gate::closed();
        let id = db.enqueue(Refund { file: gate.file() });
        let number = id.to_string();
        db.await_state(id, "running");
        let refused = run(&db, &["release-permit", &number]).exited(1).stdout;
        assert!(refused.contains("is running and needs its permit of the limit `stripe`") && refused.contains("nothing was changed"), "{refused}");
        gate.open();
        db.await_state(id, "completed");
        worker.signal("TERM");
        worker.await_line("worker stopped");
        let none = run(&db, &["release-permit", &number]).exited(1).stdout;
        assert_eq!(none, format!("job {id} has no permit; nothing was changed\n"));
        db.execute(&format!("insert into jobs.permit (job_id, limit_name, limit_key) values ({id}, 'stripe', '[]')"));
        assert_eq!(text(&db, &["release-permit", &number, "--actor", "ada"]), format!("the permit of job {id} in the limit `stripe`, all jobs, is free\n"));
        let audit = json(&db, &["audit"])[0].clone();
        assert_eq!((&audit["action"], &audit["actor"], &audit["target"]), (&json!("release_permit"), &json!("ada"), &json!(format!("job {id}"))));
        run(&db, &["release-permit", "x"]).exited(2).complained(&["is not the id of a job"]);
    }

    fn a_limit_under_the_name_of_its_kind_is_refused_with_its_real_name(db) {
        let db = db.migrated();
        for args in [&["limits", "set", "refund", "1"][..], &["limits", "reset", "refund"]] {
            run(&db, args).exited(2).complained(&["`refund` is a kind, and its limit has another name: `stripe`"]);
        }
        assert!(!text(&db, &["limits"]).contains("refund"));
        // As an enqueue from SQL makes it, which names no limit.
        db.enqueue(NewJob::raw("refund", "{}").rule(Limit::new("refund", 3)).unwrap());
        assert_eq!(text(&db, &["limits", "set", "refund", "1", "--actor", "ada"]).lines().count(), 1);
        // A kind without a limit may get one in another version of the program.
        run(&db, &["limits", "set", "charge", "1"]).succeeded().complained(&["this program has no limit `charge`"]);
        run(&db, &["limits", "reset", "charge"]).succeeded();
    }

    fn a_unique_key_is_shown_and_released(db) {
        let db = db.migrated();
        let id = db.enqueue(Welcome { user_id: 7 });
        let number = id.to_string();
        assert_eq!(db.enqueue(Welcome { user_id: 7 }), id);
        let meaning = "[7] of `welcome`, until the job has ended; an enqueue with the same key leaves this job as it is, and inserts none\n";
        let shown = text(&db, &["show", &number]);
        assert!(shown.contains(&format!("unique key   {meaning}")), "{shown}");
        let why = text(&db, &["why", &number]);
        assert!(why.ends_with(&format!("\nits unique key does not delay it: {meaning}")) && !why.contains("release-key"), "{why}");
        for command in ["show", "why"] {
            let key = json(&db, &[command, &number])["unique_key"].clone();
            assert_eq!(key, json!({"name": "welcome", "key": "[7]", "until_started": false, "until": null, "in_effect": true}), "{command}");
        }
        let released = text(&db, &["release-key", &number, "--actor", "ada"]);
        assert!(released.contains(&format!("job {id} no longer has the unique key [7] of `welcome`")), "{released}");
        assert!(run(&db, &["release-key", &number]).exited(1).stdout.contains("has no unique key; nothing was changed"));
        assert_eq!(state(&db, id), "available");
        assert_ne!(db.enqueue(Welcome { user_id: 7 }), id);
        assert!(!text(&db, &["show", &number]).contains("unique key"));
        let audit = json(&db, &["audit"]);
        assert_eq!((&audit[0]["action"], &audit[0]["actor"]), (&json!("release_key"), &json!("ada")));
        assert_eq!(audit.as_array().unwrap().len(), 1);
    }
}
