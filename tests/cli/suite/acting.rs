//! The commands that act on jobs: by ids and by filters, with a preview and a question, in batches, interrupted and
//! resumed.

use std::time::Duration;

use fixture_app::{Greet, HOUR, Wait};
use jobs::Job as _;
use serde_json::{Value, json};

use crate::support::{Db, Prepared, Run, Terminal, until, worker};

/// The jobs of an operation that is interrupted. In batches of one job, with the pauses between them, they take over
/// three minutes.
const MANY: u64 = 8000;

fn greet() -> Greet {
    Greet { name: "x".to_owned() }
}

/// Runs a command as the user `anna`. The machine of the tests may name no user.
fn prepared(db: &Db, args: &[&str]) -> Prepared {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("SUDO_USER", "").env("USER", "anna")
}

fn run(db: &Db, args: &[&str]) -> Run {
    prepared(db, args).run()
}

fn json(db: &Db, args: &[&str]) -> Value {
    run(db, &[args, &["--json"]].concat()).succeeded().json()
}

/// How many jobs match.
fn count(db: &Db, filter: &[&str]) -> u64 {
    let count = json(db, &[&["list", "--count"], filter].concat());
    assert_eq!(count["is_exact"], true);
    count["jobs"].as_u64().unwrap()
}

/// Waits until the newest operation has changed some jobs.
fn await_some_changed(db: &Db) {
    until(|| {
        let operations = json(db, &["operations"]);
        let is_some = operations[0]["changed"].as_i64().is_some_and(|changed| changed > 0);
        if is_some { Ok(()) } else { Err(format!("no job was changed: {operations}")) }
    });
}

/// Three greetings in the queue `mail`, the last one for later.
fn three(db: &Db) -> [i64; 3] {
    [db.enqueue(greet()), db.enqueue(greet()), db.enqueue(greet().delay(Duration::from_secs(3600)).tags(["vip"]))]
}

on_each_database! {
    fn each_action_on_all_jobs_that_match(db) {
        let db = db.migrated();
        three(&db);
        let other = db.enqueue(Wait { millis: 0 });
        let act = |args: &[&str]| json(&db, &[args, &["--yes"]].concat());

        let moved = act(&["move", "--to", "adhoc", "--queue", "mail"]);
        assert_eq!((&moved["changed"], &moved["matched"]), (&json!(3), &json!({"jobs": 3, "is_exact": true})));
        assert_eq!((&moved["action"], &moved["argument"], &moved["dry_run"]), (&json!("move"), &json!("adhoc"), &json!(false)));
        assert_eq!((&moved["operation"]["changed"], &moved["operation"]["actor"]), (&json!(3), &json!("anna")));
        assert_eq!((count(&db, &["--queue", "adhoc"]), count(&db, &["--queue", "mail"])), (3, 0));

        assert_eq!(act(&["reprioritise", "--to", "-7", "--kind", "greet"])["changed"], 3);
        assert_eq!(count(&db, &["--priority", "-7"]), 3);
        let later = act(&["reschedule", "--at", "2099-01-31", "--tag", "vip"]);
        assert_eq!((&later["changed"], &later["argument"]), (&json!(1), &json!("2099-01-31T00:00:00+00:00")));
        assert_eq!(count(&db, &["--run-at-after", "2099-01-30T23:59:59Z", "--state", "scheduled"]), 1);
        assert_eq!(act(&["run-now", "--tag", "vip"])["changed"], 1);
        assert_eq!(count(&db, &["--state", "scheduled"]), 0);
        assert_eq!(act(&["discard", "--queue", "adhoc"])["changed"], 3);
        assert_eq!(count(&db, &["--state", "discarded", "--error", "by anna"]), 3);
        assert_eq!(act(&["retry", "--state", "discarded", "--older-than", "0s"])["changed"], 3);
        assert_eq!(count(&db, &["--state", "available", "--kind", "greet"]), 3);
        let cancelled = run(&db, &["cancel", "--kind", "greet", "--actor", "bert", "--yes"]).succeeded();
        assert!(cancelled.stdout.contains("is done: 3 jobs changed\n"), "{cancelled:#?}");
        assert_eq!(act(&["rerun", "--state", "cancelled"])["changed"], 3);
        assert_eq!((count(&db, &["--kind", "greet"]), count(&db, &["--state", "cancelled"])), (6, 3));
        assert_eq!(act(&["delete", "--finished-before", "0s"])["changed"], 3);
        assert_eq!((count(&db, &["--kind", "greet"]), count(&db, &["--state", "available"])), (3, 4));
        assert_eq!(json(&db, &["show", &other.to_string()])["priority"], 0, "the other kind was never meant");

        let audit = json(&db, &["audit", "--limit", "100"]);
        let by = |actor: &str| audit.as_array().unwrap().iter().filter(|entry| entry["actor"] == actor).count();
        assert_eq!((by("bert"), by("anna")), (2, 16), "each operation begins and ends: {audit}");
        let none = json(&db, &["delete", "--kind", "nothing", "--yes"]);
        assert_eq!((&none["changed"], &none["operation"]), (&json!(0), &Value::Null));
        let unknown = run(&db, &["delete", "--kind", "nothing"]).succeeded();
        assert!(unknown.stdout.starts_with("no job matches state:"), "{unknown:#?}");
        assert!(unknown.stderr.contains("this program has no job of kind `nothing`"), "{unknown:#?}");
        let known = run(&db, &["retry", "--kind", "ship", "--yes"]).succeeded();
        assert!(known.stdout.starts_with("no job matches") && !known.stderr.contains("has no job of kind"), "{known:#?}");
    }

    fn all_means_all_jobs_to_which_the_command_applies(db) {
        let db = db.migrated();
        three(&db);
        assert_eq!(json(&db, &["cancel", "--all", "--yes"])["changed"], 3);
        assert_eq!(count(&db, &["--state", "cancelled"]), 3);
    }

    fn a_dry_run_changes_nothing(db) {
        let db = db.migrated();
        let ids = three(&db).map(|id| id.to_string());
        let before = json(&db, &["list"]);
        for command in [&["retry", "--all"][..], &["cancel", "--kind", "greet"], &["delete", "--queue", "mail"], &["discard", "--tag", "vip"],
            &["run-now", "--all"], &["reschedule", "--in", "2h", "--all"], &["move", "--to", "q", "--all"], &["reprioritise", "--to", "3", "--all"], &["queues", "purge", "mail"],
            &["cancel", &ids[0], &ids[1]], &["delete", &ids[0]]]
        {
            let dry = run(&db, &[command, &["--dry-run"]].concat()).succeeded();
            assert!(dry.stdout.contains("nothing was changed"), "{command:?}: {dry:#?}");
            assert_eq!(json(&db, &["list"]), before, "{command:?}");
        }
        assert_eq!((json(&db, &["operations"]), json(&db, &["audit"])), (json!([]), json!([])));
        let dry = json(&db, &["cancel", "--kind", "greet", "--dry-run"]);
        assert_eq!((&dry["dry_run"], &dry["matched"]["jobs"], &dry["changed"]), (&json!(true), &json!(3), &json!(0)));
        assert_eq!((dry["sample"].as_array().unwrap().len(), &dry["filter"]), (3, &json!("state:available,scheduled,retrying,held,running kind:greet")));
        let text = run(&db, &["cancel", "--kind", "greet", "--dry-run"]).succeeded().stdout;
        assert!(text.contains("would cancel 3 jobs that match state:") && text.contains("ATTEMPT") && text.contains(&ids[0]), "{text}");
        let dry = run(&db, &["cancel", &ids[0], "999999", "--dry-run", "--json"]).exited(1).json();
        assert_eq!((&dry[0]["result"], &dry[1]["result"]), (&json!("would_be_done"), &json!("not_found")));
    }

    fn a_question_is_asked_and_only_its_answer_changes_jobs(db) {
        let db = db.migrated();
        three(&db);
        let asked = run(&db, &["cancel", "--kind", "greet"]).exited(1);
        let asked = asked.complained(&["cancel 3 jobs that match", "Write `yes` to continue", "nothing was changed", "--yes", "ATTEMPT"]);
        assert_eq!(asked.stdout, "");
        for (args, answer) in [(&["cancel", "--kind", "greet"][..], "no\n"), (&["delete", "--kind", "greet"], "yes\n"), (&["queues", "purge", "mail"], "yes\n"), (&["queues", "purge", "mail"], "mai\n")] {
            prepared(&db, args).run_with_input(answer).exited(1).complained(&["nothing was changed", answer.trim()]);
        }
        run(&db, &["delete", "1"]).exited(1).complained(&["delete 1 job", "cannot be undone", "nothing was changed"]);
        assert_eq!((count(&db, &[]), json(&db, &["operations"])), (3, json!([])));

        run(&db, &["cancel", "--state", "scheduled"]).exited(1).complained(&["cancel 1 job that matches state:scheduled"]);
        prepared(&db, &["cancel", "--state", "scheduled"]).run_with_input("yes\n").succeeded();
        assert_eq!((count(&db, &["--state", "cancelled"]), count(&db, &["--state", "available"])), (1, 2));
        prepared(&db, &["delete", "--state", "cancelled"]).run_with_input("delete\n").succeeded();
        assert_eq!(count(&db, &[]), 2);
        let running = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&["--queues", "default=1"]);
        db.await_state(running, "running");
        prepared(&db, &["queues", "purge", "mail"]).run_with_input("mail\n").succeeded();
        assert_eq!(count(&db, &[]), 1, "jobs of other queues stay");
        assert_eq!(json(&db, &["queues", "purge", "default", "--yes"])["changed"], 0, "a running job stays");
        worker.kill();
    }

    fn wrong_jobs_and_filters_are_refused_before_anything_is_done(db) {
        let db = db.migrated();
        let ids = three(&db).map(|id| id.to_string());
        for (args, parts) in [
            (&["retry"][..], &["which jobs?", "--all"][..]),
            (&["cancel", &ids[0], "--kind", "greet"], &["do not go together"]),
            (&["cancel", &ids[0], "--all"], &["do not go together"]),
            (&["cancel", "--all", "--kind", "greet"], &["--all and a filter"]),
            (&["cancel", "seven"], &["seven", "whole number"]),
            (&["cancel", "--state", "dead"], &["--state", "available, scheduled"]),
            (&["cancel", "--kind", "greet", "--batch", "2000"], &["--batch", "from 1 to 1000"]),
            (&["cancel", "--kind", "greet", "--limit", "0"], &["--limit", "from 1"]),
            (&["cancel", &ids[0], "--limit", "1"], &["--limit need a filter"]),
            (&["cancel", "--enqueued-before", "yesterday", "--yes"], &["--enqueued-before", "such as 30m"]),
            (&["cancel", "--args", "x", "--yes"], &["--args", "user.id=7"]),
            (&["cancel", "--filter", "stat:dead", "--yes"], &["--filter", "did you mean state?"]),
            (&["retry", "--state", "running", "--yes"], &["retry applies to jobs that are"]),
            (&["move", "--to", "", "--all", "--yes"], &["--to", "is empty"]),
            (&["move", "--all", "--yes"], &["--to"]),
            (&["reschedule", "--all", "--yes"], &["--at"]),
            (&["reschedule", "--at", "2099-01-31", "--in", "2h", &ids[0]], &["--at", "cannot be used with", "--in"]),
            (&["reschedule", "--at", "soon", &ids[0]], &["--at", "soon", "is not a time"]),
            (&["reschedule", "--in", "40000d", &ids[0]], &["a hundred years"]),
            (&["reschedule", "--in", "2h"], &["which jobs?", "reschedule --kind"]),
            (&["reprioritise", "--to", "40000", "--all", "--yes"], &["--to", "32767"]),
            (&["cancel", "--all", "--yes", "--actor", ""], &["actor"]),
            (&["list", "--fingerprint", "x"], &["--fingerprint"]),
            (&["list", "--count", "--before", "7"], &["--count", "--before"]),
            (&["operations", "show", "x"], &["whole number"]),
        ] {
            run(&db, args).exited(2).complained(parts);
        }
        run(&db, &["operations", "show", "7"]).exited(1).complained(&["there is no operation 7"]);
        run(&db, &["operations", "resume", "7"]).exited(1).complained(&["there is no operation 7"]);
        run(&db, &["operations", "cancel", "7"]).exited(1).complained(&["there is no operation 7"]);
        assert_eq!((count(&db, &["--state", "cancelled"]), json(&db, &["operations"])), (0, json!([])));
    }

    fn each_id_gets_an_answer(db) {
        let db = db.migrated();
        let [one, two, _] = three(&db).map(|id| id.to_string());
        let running = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&["--queues", "default=1"]);
        db.await_state(running, "running");
        let running = running.to_string();
        let refused = run(&db, &["delete", &one, &running, "999999", "--yes"]).exited(1).stdout;
        assert_eq!(refused, format!("job {one}: deleted\njob {running} is running: a running job cannot be deleted; cancel it first\njob 999999: there is no such job\n"));
        assert_eq!(run(&db, &["move", "--to", "adhoc", &two]).succeeded().stdout, format!("job {two}: moved to the queue `adhoc`\n"));
        assert_eq!(run(&db, &["reprioritise", "--to", "-3", &two]).succeeded().stdout, format!("job {two}: priority set to -3\n"));
        let later = run(&db, &["reschedule", "--at", "2099-01-31T08:00:00+01:00", &two, &running, "999999"]).exited(1);
        assert_eq!(later.stdout, format!("job {two}: rescheduled to 2099-01-31 07:00:00Z\njob {running} is running: only waiting jobs can be rescheduled\njob 999999: there is no such job\n"));
        assert_eq!(json(&db, &["show", &two])["state"], "scheduled");
        let now = run(&db, &["reschedule", "--run-at", "2026-01-31", &two]).succeeded();
        assert!(now.stderr.contains("the time of --at is in the past, so the jobs are due now"), "{now:#?}");
        assert_eq!(json(&db, &["show", &two])["state"], "available");
        let entry = &json(&db, &["audit", "--limit", "2"])[1];
        assert_eq!((&entry["action"], &entry["detail"]["argument"]), (&json!("reschedule"), &json!("2099-01-31T07:00:00+00:00")));
        assert_eq!(run(&db, &["discard", &two]).succeeded().stdout, format!("job {two}: discarded\n"));
        let again = run(&db, &["rerun", &two, &running, "--json"]).exited(1).json();
        assert_eq!((&again[0]["result"], &again[1]["state"]), (&json!("done"), &json!("running")));
        let new = again[0]["new_id"].as_i64().unwrap().to_string();
        assert_eq!((&json(&db, &["show", &new])["queue"], &json(&db, &["show", &two])["state"]), (&json!("adhoc"), &json!("discarded")));
        worker.kill();
    }

    fn jobs_that_moved_meanwhile_are_counted(db) {
        let db = db.migrated();
        let [one, ..] = three(&db).map(|id| id.to_string());
        let mut asked = prepared(&db, &["cancel", "--kind", "greet"]).start_with_input();
        asked.await_line("Write `yes`");
        run(&db, &["cancel", &one, "--actor", "bert"]).succeeded();
        asked.answer("yes\n");
        let run = asked.ended().succeeded();
        assert!(run.stdout.contains("2 jobs changed\n1 job had changed in the meantime"), "{run:#?}");
        assert_eq!(json(&db, &["show", &one])["errors"][0]["actor"], "bert");
    }

    fn a_limit_takes_the_newest_jobs(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", 25);
        let done = json(&db, &["cancel", "--kind", "wait", "--limit", "12", "--batch", "5", "--yes"]);
        assert_eq!((&done["changed"], &done["matched"]["jobs"], &done["operation"]), (&json!(12), &json!(25), &Value::Null));
        let cancelled = json(&db, &["list", "--state", "cancelled", "--limit", "100"]);
        let waiting = json(&db, &["list", "--state", "available", "--limit", "100"]);
        let ids = |jobs: &Value| jobs.as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect::<Vec<_>>();
        assert_eq!((cancelled.as_array().unwrap().len(), waiting.as_array().unwrap().len()), (12, 13));
        assert!(ids(&cancelled).iter().min() > ids(&waiting).iter().max(), "{cancelled}");
        let text = run(&db, &["cancel", "--kind", "wait", "--limit", "100", "--yes"]).succeeded().stdout;
        assert_eq!(text, "13 jobs changed\n");
    }

    fn an_interrupted_action_is_resumed_and_nothing_is_done_twice(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", MANY);
        let command = prepared(&db, &["cancel", "--kind", "wait", "--batch", "1", "--yes"]).start();
        await_some_changed(&db);
        command.signal("INT");
        let run_ = command.ended().exited(1);
        for part in ["interrupted", "workers continue it", "worker operations resume 1", "worker operations cancel 1"] {
            assert!(run_.stdout.contains(part), "{part}: {run_:#?}");
        }
        let open = json(&db, &["operations", "show", "1"]);
        let changed = open["changed"].as_u64().unwrap();
        assert!(changed > 0 && changed < MANY && open["finished_at"].is_null(), "{open}");
        assert_eq!(count(&db, &["--state", "cancelled"]), changed);
        assert!(run(&db, &["operations"]).succeeded().stdout.contains("open, at job"));

        let resumed = run(&db, &["operations", "resume", "1"]).succeeded();
        assert_eq!(resumed.stdout, "operation 1 is done: 8,000 jobs changed\n");
        assert_eq!(count(&db, &["--state", "cancelled"]), MANY);
        assert!(run(&db, &["operations", "resume", "1"]).succeeded().stdout.contains("had ended before: done at"));
        assert!(run(&db, &["operations", "cancel", "1"]).exited(1).stdout.contains("had ended before: done at"));
    }

    fn an_operation_is_cancelled_and_its_command_says_by_whom(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", MANY);
        let command = prepared(&db, &["discard", "--kind", "wait", "--batch", "1", "--yes"]).start();
        await_some_changed(&db);
        let cancelled = run(&db, &["operations", "cancel", "1", "--actor", "bert"]).succeeded().stdout;
        assert!(cancelled.starts_with("operation 1 was cancelled by bert: "), "{cancelled}");
        let ended = command.ended().exited(1);
        assert!(ended.stdout.contains("operation 1 was cancelled by bert"), "{ended:#?}");
        let changed = json(&db, &["operations", "show", "1"])["changed"].as_u64().unwrap();
        assert_eq!((count(&db, &["--state", "discarded"]), count(&db, &["--state", "available"])), (changed, MANY - changed));
    }

    fn two_operators_at_once_change_each_job_once(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", 2000);
        let command = |actor: &str| prepared(&db, &["cancel", "--kind", "wait", "--batch", "50", "--yes", "--json", "--actor", actor]).start();
        let (anna, bert) = (command("anna"), command("bert"));
        let changed = |run: Run| run.succeeded().json()["changed"].as_u64().unwrap();
        let (anna, bert) = (changed(anna.ended()), changed(bert.ended()));
        assert_eq!((anna + bert, count(&db, &["--state", "cancelled"])), (2000, 2000));

        // Both work on one operation.
        let started = json(&db, &["retry", "--state", "cancelled", "--detach", "--yes"]);
        let id = started["operation"]["id"].to_string();
        assert_eq!((&started["changed"], &started["matched"]["jobs"]), (&json!(0), &json!(2000)));
        let both = [(); 2].map(|()| prepared(&db, &["operations", "resume", &id]).start());
        for one in both {
            let run = one.ended().succeeded();
            assert!(run.stdout.contains("2,000 jobs changed") || run.stdout.contains("had ended before"), "{run:#?}");
        }
        assert_eq!(count(&db, &["--state", "available"]), 2000);
    }

    fn workers_do_what_is_left_to_them(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "elsewhere", 1500);
        let detached = run(&db, &["cancel", "--kind", "wait", "--detach", "--yes"]).succeeded().stdout;
        assert!(detached.contains("operation 1 has started, and workers carry it out"), "{detached}");
        let mut worker = db.start(&["--queues", "default"]);
        until(|| {
            let is_done = !json(&db, &["operations", "show", "1"])["finished_at"].is_null();
            is_done.then_some(()).ok_or("the worker did not do it")
        });
        assert_eq!(count(&db, &["--state", "cancelled"]), 1500);
        worker.kill();
    }

    fn piped_output_has_no_bar_and_no_colours(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", 1500);
        for args in [&["cancel", "--kind", "wait", "--batch", "100", "--yes"][..], &["list", "--limit", "5"], &["operations"], &["audit"], &["rerun", "--state", "cancelled", "--limit", "300", "--yes"]] {
            let run = run(&db, args).succeeded();
            let said = format!("{}{}", run.stdout, run.stderr);
            assert!(!said.contains(['\u{1b}', '\r', '█']) && !said.contains("[="), "{said}");
        }
    }
}

#[test]
fn a_terminal_shows_a_bar_and_ctrl_c_leaves_the_rest_to_the_workers() {
    let db = Db::sqlite().migrated();
    db.enqueue_many("wait", "default", MANY);
    let terminal = Terminal::open(120, 40);
    let program = env!("CARGO_BIN_EXE_fixture-worker");
    terminal.keys(&[&format!("clear; DATABASE_URL='{}' {program} cancel --kind wait --batch 1", db.url), "Enter"]);
    terminal.await_text("Write `yes` to continue:");
    terminal.keys(&["yes", "Enter"]);
    terminal.await_screen("the bar", |screen| screen.contains("[=") && screen.contains("of 8,000 jobs"));
    assert!(terminal.screen().contains("operation 1 has started; Ctrl-C leaves the rest to the workers"));
    terminal.keys(&["C-c"]);
    let screen = terminal.await_text("worker operations resume 1");
    assert!(screen.contains("interrupted: "), "{screen}");
    terminal.await_shell();
    assert_eq!(count(&db, &["--state", "cancelled"]), json(&db, &["operations"])[0]["changed"].as_u64().unwrap());
    terminal.keys(&[&format!("clear; DATABASE_URL='{}' {program} operations resume 1", db.url), "Enter"]);
    let screen = terminal.await_text("operation 1 is done: 8,000 jobs changed");
    assert!(!screen.contains("[="), "the bar is gone: {screen}");
}

#[test]
fn jobs_that_another_transaction_has_locked_are_named() {
    let db = Db::postgres().migrated();
    let [one, ..] = three(&db);
    db.execute_in_background("begin; select id from jobs.ready order by id limit 1 for update; select pg_sleep(3600)");
    db.await_sleep();
    let run = run(&db, &["cancel", "--kind", "greet", "--yes"]).exited(1);
    let text = format!("2 jobs changed\nleft out job {one}: other transactions have held them locked");
    assert!(run.stdout.contains(&text), "{run:#?}");
}
