//! Mistyped options are refused before anything is done: exit code 2, and a line that says what to write.

use serde_json::json;

use crate::support::{Findings, Scratch, worker};

#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    worker("fixture-worker").args(args).run().exited(2).complained(parts);
}

#[track_caller]
fn refused_variable(name: &str, value: &str, part: &str) {
    // Variables are read before the database is opened.
    let worker = worker("fixture-worker").env("DATABASE_URL", "sqlite:///no/such/directory/jobs.db");
    worker.env(name, value).run().exited(2).complained(&[name, part]);
}

#[test]
fn bad_durations_are_explained() {
    refused(&["--poll-interval", "30"], &["--poll-interval", "write 30s"]);
    refused(&["run", "--grace-period", "soon"], &["--grace-period", "not a duration"]);
    refused(&["run", "--lease", "0s"], &["--lease", "longer than 0"]);
    refused(&["doctor", "--objective", "1.5m"], &["--objective", "whole numbers with units"]);
}

#[test]
fn bad_queues_are_explained() {
    refused(&["--queues", "mail=0"], &["--queues", "leave the queue out"]);
    refused(&["--queues", "mail=many"], &["whole number"]);
    refused(&["--queues", "mail,mail=3"], &["named twice"]);
    refused(&["--queues", "mail,tenant-?=2"], &["`?` has no meaning", "only `*` stands for any characters"]);
    refused(&["--queues", "[a-z]*"], &["`[` has no meaning", "`tenant-*`"]);
    refused(&["--queues", "a*b*"], &["a pattern has one `*`"]);
    refused(&["--queues", "*=0"], &["--queues", "leave the queue out"]);
    for command in
        [["list", "--queue", "tenant-*"], ["tail", "--queue", "tenant-*"], ["list", "--filter", "queue:tenant-*"]]
    {
        refused(&command, &["`tenant-*` is not a queue", "such as `tenant-1`"]);
    }
}

#[test]
fn bad_numbers_are_explained() {
    for option in ["--queue", "--tag"] {
        refused(&["enqueue", "k", option, "a\u{1b}[2J"], &[option, "control character '\\u{1b}'"]);
    }
    refused(&["--slots", "0"], &["--slots", "whole number from 1"]);
    for slots in ["0", "100001", "many"] {
        refused(&["--slots-total", slots], &["--slots-total", "whole number from 1 to 100000"]);
    }
    refused(&["--max-crashes", "0"], &["--max-crashes", "from 1 to 65535"]);
    for limit in ["0", "-1", "abc", "1.5"] {
        refused(&["list", "--limit", limit], &["--limit", &format!("{limit:?} is not a whole number from 1")]);
    }
    for priority in ["99999", "high"] {
        let says = format!("{priority:?} is not a priority: it is a whole number from -32768 to 32767");
        refused(&["list", "--priority", priority], &["--priority", &says]);
        refused(&["reprioritise", "--all", "--to", priority], &["--to", &says]);
    }
    refused(&["failures", "retry", "x"], &["\"x\" is not a fingerprint", "worker failures"]);
    refused(&["import", "--from-line", "0", "jobs.jsonl"], &["--from-line", "whole number from 1"]);
    refused(
        &["schedules", "add", "a", "b", "--cron", "* * * * * *", "--max-attempts", "0"],
        &["--max-attempts", "from 1 to 32767"],
    );
}

#[test]
fn bad_variables_are_named() {
    refused_variable("JOBS_POLL_INTERVAL", "30", "write 30s");
    refused_variable("JOBS_GRACE_PERIOD", "soon", "not a duration");
    refused_variable("JOBS_LEASE", "1y", "unknown unit");
    refused_variable("JOBS_QUEUES", "mail=", "whole number");
    refused_variable("JOBS_SLOTS", "-1", "whole number");
    refused_variable("JOBS_QUEUES", "tenant-?", "`tenant-*`");
    refused_variable("JOBS_SLOTS_TOTAL", "0", "whole number from 1 to 100000");
    refused_variable("JOBS_CONNECTIONS", "none", "whole number");
    refused_variable("JOBS_MAX_LIFETIME", "999ms", "at least 1s");
    refused_variable("JOBS_MAX_CRASHES", "0", "whole number");
    refused_variable("JOBS_LOG_FORMAT", "xml", "pretty or json");
    refused_variable("RUST_LOG", "diesel_jobs=loud", "level");
}

/// `concurrency` is the word for limits over all workers.
#[test]
fn the_earlier_name_of_slots_is_refused_in_words() {
    refused(&["--concurrency", "3"], &["write --slots 3"]);
    refused(&["run", "--concurrency=3"], &["write --slots 3"]);
    refused_variable("JOBS_CONCURRENCY", "3", "is called JOBS_SLOTS");
}

#[test]
fn a_shortened_name_is_refused_with_the_whole_one() {
    refused(&["--poll", "3s"], &["'--poll'", "'--poll-interval'"]);
    refused(&["run", "--grace=30s"], &["'--grace'", "'--grace-period'"]);
    refused_variable("JOBS_POLL", "3s", "set JOBS_POLL_INTERVAL instead");
    refused_variable("JOBS_GRACE", "30s", "set JOBS_GRACE_PERIOD instead");
}

#[test]
fn commands_that_do_not_work_ignore_the_workers_variables() {
    let scratch = Scratch::new();
    let url = format!("sqlite://{}/jobs.db", scratch.path().display());
    worker("fixture-worker")
        .args(["migrate", "--database-url", &url])
        .env("JOBS_POLL_INTERVAL", "30")
        .run()
        .succeeded();
}

#[test]
fn an_option_of_run_before_another_command_is_not_swallowed() {
    refused(&["--queues", "mail", "doctor"], &["after the command"]);
}

#[test]
fn an_unknown_scheme_is_named_and_the_rest_of_the_url_is_not() {
    worker("fixture-worker")
        .args(["stats"])
        .env("DATABASE_URL", "mysql://me:s3cret@localhost/app")
        .run()
        .exited(2)
        .complained(&["DATABASE_URL", "\"mysql\"", "postgres://"])
        .never_said("s3cret");
}

#[test]
fn an_unreadable_url_is_not_repeated() {
    worker("fixture-worker")
        .args(["stats"])
        .env("DATABASE_URL", "postgres://me:s3cret@localhost:port/app")
        .run()
        .exited(2)
        .never_said("s3cret");
}

#[test]
fn help_states_defaults_units_variables_and_exit_codes() {
    let help = worker("fixture-worker").args(["run", "--help"]).run().succeeded().stdout;
    for part in
        ["[env: JOBS_POLL_INTERVAL]", "[default: 3s]", "mail=10,default=50", "Exit codes:", "DATABASE_URL", "RUST_LOG"]
    {
        // The help is wrapped at the width of the terminal.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(part), "{part:?} is missing: {help}");
    }
}

#[test]
fn help_never_shows_values_of_the_environment() {
    worker("fixture-worker")
        .args(["--help"])
        .env("DATABASE_URL", "postgres://me:s3cret@localhost/app")
        .run()
        .succeeded()
        .never_said("s3cret");
}

on_each_database! {
    fn names_that_begin_like_options_work_and_advice_can_be_pasted(db) {
        let db = db.migrated();
        let enqueued = db.json(&["enqueue", "--queue=-x", "--tag=--y", "--actor", "ada", "greet", r#"{"name":"x"}"#]);
        let id = enqueued["id"].as_i64().unwrap();
        let listed = db.json(&["list", "--queue=-x", "--tag=--y"]);
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["queue"]), (1, &json!("-x")));

        // Runs what stands between the first pair of backticks after `before`, or all that follows.
        let paste = |said: &str, before: &str, after: &str| {
            let command = &said[said.find(before).unwrap_or_else(|| panic!("{before:?} is missing: {said}"))..];
            let command = command.split('`').next().unwrap();
            let program = env!("CARGO_BIN_EXE_fixture-worker");
            let script = format!("worker() {{ '{program}' \"$@\"; }}; {command} {after}");
            let output = std::process::Command::new("sh").args(["-c", &script]).env("DATABASE_URL", &db.url).output().unwrap();
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
            command.to_owned()
        };
        db.run(&["queues", "pause", "--actor", "ada", "--", "-x"]).succeeded();
        for command in [&["why", &id.to_string()][..], &["stats"], &["queues", "drain", "--", "-x"]] {
            let said = db.run(command).succeeded().stdout;
            assert_eq!(paste(&said, "worker queues resume", ""), "worker queues resume -- -x", "{said}");
            assert_eq!(db.json(&["queues"])[0]["paused"], json!(null), "{command:?}");
            db.run(&["queues", "pause", "--", "-x"]).succeeded();
        }
        let (_, repair) = Findings::of(&db.run(&["doctor", "--json"])).one("queue_paused");
        paste(&repair, "worker queues resume", "");
        let (_, repair) = Findings::of(&db.run(&["doctor", "--json"])).one("unserved_queue");
        assert_eq!(paste(&repair, "worker run", "--until-empty"), r#"worker run --queues '"-x"'"#);
        db.await_state(id, "completed");
    }

    fn advice_about_names_with_any_characters_can_be_pasted(db) {
        let db = db.migrated();
        // A list would split, trim or refuse some of them, a terminal would hide parts of others.
        let queues = ["a,b", "a=2", " lead", "!x", "{$HOME}", "\"q\"", "x\ny", "it's\u{1b}\u{202e}\\", "ends\n"];
        let kinds = ["a,b", "a, \"b\"", "it's,\n"];
        let sql = |name: &str| name.replace('\'', "''");
        let left = |conditions: &[(&str, &str)]| {
            let quoted = |(name, value): &(&str, &str)| format!(" {name}:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
            let filter = format!("state:available{}", conditions.iter().map(quoted).collect::<String>());
            db.json(&["list", "--count", "--filter", &filter])["jobs"].as_i64().unwrap()
        };
        let paste = |command: &str, after: &str| {
            let program = env!("CARGO_BIN_EXE_fixture-worker");
            let script = format!("worker() {{ '{program}' \"$@\"; }}; {command} {after}");
            let output = std::process::Command::new("bash").args(["-c", &script]).env("DATABASE_URL", &db.url).output().unwrap();
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        };
        // The end of the repair of the finding that says this. The text form has the same.
        let repair = |args: &[&str], said: &str, before: &str| {
            let report = db.run(&[&["doctor", "--json"], args].concat()).json();
            let findings = report["findings"].as_array().unwrap();
            let one = findings.iter().find(|one| one["what"].as_str().unwrap().contains(said)).unwrap_or_else(|| panic!("{said}: {report}"));
            let (_, command) = one["repair"].as_str().unwrap().rsplit_once(before).unwrap();
            let text = db.run(&[&["doctor"], args].concat()).stdout;
            assert!(text.contains(command), "{command}: {text}");
            command.to_owned()
        };

        for queue in queues.iter().chain(&["a", "b", "lead", "x"]) {
            db.enqueue_many("wait", &sql(queue), 1);
        }
        let mut jobs = left(&[]);
        for queue in queues {
            let command = repair(&[], &format!("in queue `{queue}`"), "start a worker that serves it: ");
            paste(&command, "--until-empty");
            jobs -= 1;
            assert_eq!((left(&[("queue", queue)]), left(&[])), (0, jobs), "{command}");
        }

        let mut jobs = left(&[]);
        for (kind, queue) in kinds.iter().flat_map(|kind| [(*kind, "mail"), (*kind, "q,r"), ("a", "mail"), ("b", "mail")]) {
            db.enqueue_many(&sql(kind), queue, 1);
            jobs += 1;
        }
        for (kind, queue) in kinds.iter().flat_map(|kind| [(*kind, "mail"), (*kind, "q,r")]) {
            let said = format!("of kind `{kind}` waits in queue `{queue}`");
            let command = repair(&["--queues", "mail,\"q,r\""], &said, "or end the jobs: ");
            paste(&command, "--yes");
            jobs -= 1;
            assert_eq!((left(&[("kind", kind), ("queue", queue)]), left(&[])), (0, jobs), "{command}");
        }
    }

    fn the_user_of_the_machine_may_have_any_name(db) {
        let db = db.migrated();
        let pause = |queue: &str, user: &str, actor: &str| {
            let worker = worker("fixture-worker").args(["queues", "pause", queue]).env("DATABASE_URL", &db.url);
            let worker = worker.env("SUDO_USER", "").env("LOGNAME", "").env("USERNAME", "");
            worker.env("USER", user).env("JOBS_ACTOR", actor).run()
        };
        for (queue, user, name) in [("a", "an\u{7}na\n", "anna"), ("b", "\t", "an operator"), ("c", &"x".repeat(600), &*"x".repeat(500))] {
            pause(queue, user, "").succeeded();
            assert_eq!(db.json(&["audit", "--limit", "1"])[0]["actor"], name, "{user:?}");
        }
        pause("d", "anna", "a\u{7}").exited(2).complained(&["JOBS_ACTOR: the actor must be one line", "--actor", "SUDO_USER, USER"]);
    }
}
