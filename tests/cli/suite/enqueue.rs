//! `enqueue`: a job from the command line, with the options and rules of its kind.

use serde_json::{Value, json};

use crate::support::{Db, Run, worker};

fn enqueue(db: &Db, args: &[&str]) -> Run {
    worker("fixture-worker").args(["enqueue", "--actor", "ada"]).args(args).env("DATABASE_URL", &db.url).run()
}

fn enqueued(db: &Db, args: &[&str]) -> Value {
    enqueue(db, &[args, &["--json"]].concat()).succeeded().json()
}

fn shown(db: &Db, id: &Value) -> Value {
    db.json(&["show", &id.to_string()])
}

on_each_database! {
    fn a_job_gets_the_options_of_its_kind_and_runs(db) {
        let db = db.migrated();
        let answer = enqueued(&db, &["greet", r#"{"name":"ada"}"#]);
        assert_eq!(answer, json!({"id": answer["id"], "kind": "greet", "queue": "mail", "result": "new"}));
        let audit = db.json(&["audit"])[0].clone();
        assert_eq!((&audit["action"], &audit["actor"], &audit["target"]), (&json!("enqueue"), &json!("ada"), &json!(format!("job {}", answer["id"]))));
        let text = enqueue(&db, &["welcome", r#"{"user_id":7}"#]).succeeded().stdout;
        assert!(text.starts_with("enqueued job ") && text.ends_with(" of kind `welcome` in queue `default`\n"), "{text}");
        let mut worker = db.start(&[]);
        db.await_state(answer["id"].as_i64().unwrap(), "completed");
        worker.kill();
    }

    fn options_replace_those_of_the_kind(db) {
        let db = db.migrated();
        let args = ["greet", r#"{"name":"ada"}"#, "--queue", "bulk", "--priority", "-3", "--max-attempts", "2", "--tag", "vip", "--tag", "eu"];
        let job = shown(&db, &enqueued(&db, &args)["id"]);
        assert_eq!((&job["queue"], &job["priority"], &job["max_attempts"], &job["tags"]), (&json!("bulk"), &json!(-3), &json!(2), &json!(["vip", "eu"])));
        assert_eq!(job["state"], "available");
        let job = shown(&db, &enqueued(&db, &["greet", r#"{"name":"ada"}"#, "--run-at", "2126-01-31"])["id"]);
        assert_eq!((&job["state"], &job["run_at"]), (&json!("scheduled"), &json!("2126-01-31T00:00:00Z")));
        for (delay, state) in [("10h", "scheduled"), ("0s", "available")] {
            let job = shown(&db, &enqueued(&db, &["greet", r#"{"name":"ada"}"#, "--in", delay])["id"]);
            assert_eq!(job["state"], state, "{job}");
        }
    }

    fn a_job_that_would_wait_for_nobody_comes_with_a_warning(db) {
        let db = db.migrated();
        let warns = |args: &[&str]| enqueue(&db, &[&["greet", r#"{"name":"ada"}"#], args].concat()).succeeded().stderr;
        let text = warns(&["--queue", "bulk"]);
        assert!(text.contains("no live worker serves the queue `bulk`; the job waits until a worker does: `worker run --queues bulk`"), "{text}");
        let served = enqueued(&db, &["greet", r#"{"name":"ada"}"#])["id"].as_i64().unwrap();
        let mut worker = db.start(&[]);
        db.await_state(served, "completed");
        assert!(!warns(&[]).contains("warning"));
        let text = warns(&["--run-at", "2020-01-31"]);
        assert!(text.ends_with("warning: the time of --run-at is in the past, so the job is due now\n"), "{text}");
        db.run(&["queues", "pause", "mail"]).succeeded();
        let text = warns(&[]);
        assert!(text.contains("queue `mail` is paused") && text.contains("the job waits until `worker queues resume mail`"), "{text}");
        db.run(&["queues", "resume", "mail"]).succeeded();
        db.run(&["kinds", "pause", "greet"]).succeeded();
        let text = warns(&[]);
        assert!(text.contains("kind `greet` is paused") && text.contains("the job waits until `worker kinds resume greet`"), "{text}");
        worker.kill();
    }

    fn unique_and_limited_kinds_keep_their_rules(db) {
        let db = db.migrated();
        let first = enqueued(&db, &["welcome", r#"{"user_id":7}"#]);
        let again = enqueued(&db, &["welcome", r#"{"user_id":7}"#]);
        assert_eq!((&again["id"], &again["result"]), (&first["id"], &json!("existing")));
        let text = enqueue(&db, &["welcome", r#"{"user_id":7}"#]).succeeded().stdout;
        assert_eq!(text, format!("job {} of kind `welcome` has the same unique key, so nothing was enqueued\n", first["id"]));
        assert_ne!(enqueued(&db, &["welcome", r#"{"user_id":8}"#])["id"], first["id"]);
        let refund = enqueued(&db, &["refund", r#"{"file":"x"}"#]);
        assert!(enqueue(&db, &["refund", r#"{"file":"x"}"#]).succeeded().stdout.starts_with("enqueued job"));
        let text = db.run(&["show", &refund["id"].to_string()]).succeeded().stdout;
        assert!(text.contains("`stripe`"), "{text}");
    }

    fn arguments_that_do_not_fit_are_refused_without_their_values(db) {
        let db = db.migrated();
        for (args, part) in [
            (&["greet"][..], "missing field `name`"),
            (&["greet", " "], "the arguments are empty"),
            (&["greet", r#"{"name":7654321}"#], "`name`: expected a string"),
            (&["greet", "7654321"], "expected the arguments of job `greet`"),
            (&["greet", r#"{"name":"7654321""#], "the arguments are not JSON, from line 1, column 17 on"),
            (&["wait", r#"{"millis":-7654321}"#], "`millis`: expected u64"),
            (&["greet", r#"{"name":"x","nmae":7654321}"#], "there is no argument `nmae` (did you mean `name`?)"),
            (&["greet", r#"{"name":"x","7\u001b":7654321}"#], "there is no argument `7\\u{1b}` (it takes `name`)"),
            (&["greet", r#"{"name":"x"}"#, "--queue", ""], "is empty"),
        ] {
            enqueue(&db, args).exited(2).complained(&["no job of kind `", part, "nothing was enqueued"]).never_said("7654321");
        }
        assert_eq!(db.json(&["list"]), json!([]));
    }

    fn a_kind_that_this_program_does_not_have_is_refused_with_a_suggestion(db) {
        let db = db.migrated();
        enqueue(&db, &["gret", "{}"]).exited(2).complained(&["this program has no job of kind `gret`; did you mean `greet`?"]);
        enqueue(&db, &["xyzzy", "{}"]).exited(2).complained(&["its kinds are: block, charge"]);
    }

    fn arguments_on_several_lines_are_one_line_of_an_export(db) {
        let db = db.migrated();
        enqueue(&db, &["greet", "{\n\t\"name\":\n\"a b\" }"]).succeeded();
        let exported = db.run(&["export"]).succeeded().stdout;
        assert_eq!(exported.lines().count(), 1, "{exported}");
        assert!(exported.contains(r#""args":{"name":"a b"}"#), "{exported}");
        assert_eq!(db.run(&["list", "--json"]).succeeded().stdout.lines().count(), 1);
    }

    fn an_answer_that_cannot_be_written_says_that_the_job_is_stored(db) {
        let db = db.migrated();
        let program = env!("CARGO_BIN_EXE_fixture-worker");
        let command = format!("'{program}' enqueue greet '{{\"name\":\"ada\"}}' > /dev/full");
        let output = std::process::Command::new("sh").args(["-c", &command]).env("DATABASE_URL", &db.url).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("the job is stored as job ") && text.contains("do not repeat the command"), "{text}");
        assert_eq!(db.json(&["list"]).as_array().unwrap().len(), 1);
    }

    fn arguments_are_read_from_standard_input(db) {
        let db = db.migrated();
        let command = worker("fixture-worker").args(["enqueue", "greet", "-", "--json"]).env("DATABASE_URL", &db.url);
        let answer = command.run_with_input("{\"name\": \"ada\"}\n").succeeded().json();
        assert_eq!(shown(&db, &answer["id"])["args"], json!({"name": "ada"}));
        let command = worker("fixture-worker").args(["enqueue", "greet", "-"]).env("DATABASE_URL", &db.url);
        command.run_with_input(&" ".repeat(525_000)).exited(2).complained(&["more than the 262144 bytes", "nothing was enqueued"]);
    }
}
