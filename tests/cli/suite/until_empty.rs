//! `run --until-empty`: a run that ends by itself, its last line and its exit code.

use fixture_app::{Charge, Greet, HOUR, Wait, WaitFor};

use crate::support::{Db, Gate, worker};

/// With a schedule whose last ticks are hours ago, and not within the last minute.
fn scheduled(db: Db, catch_up: &str) -> Db {
    let seconds = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let minute = (seconds / 60 + 30) % 60;
    let cron = format!("0 {minute} * * * *");
    let args = r#"{"millis":1}"#;
    let add = [
        "schedules",
        "add",
        "hourly",
        "wait",
        "--cron",
        &cron,
        "--catch-up",
        catch_up,
        "--args",
        args,
        "--actor",
        "ada",
    ];
    db.run(&add).succeeded();
    let hours = if db.waiting_table() == "jobs.ready" { "interval '5 hours'" } else { "18000000000" };
    db.execute(&format!("update jobs.schedule set last_tick = last_tick - {hours}"));
    db
}

on_each_database! {
    fn what_is_due_runs_and_the_last_line_counts_it(db) {
        let db = db.migrated();
        let due = db.enqueue(Wait { millis: 1 });
        let later = db.enqueue(jobs::Job::delay(Wait { millis: 1 }, std::time::Duration::from_millis(HOUR)));
        let run = db.run(&["run", "--until-empty", "--slots-total", "1"]).succeeded();
        let last = run.stderr.lines().last().unwrap();
        assert!(last.contains("the run has ended: 1 completed"), "{run:#?}");
        assert!(run.stderr.contains("no job is due: the worker ends"), "{run:#?}");
        assert_eq!(db.json(&["show", &due.to_string()])["state"], "completed");
        assert_eq!(db.json(&["show", &later.to_string()])["state"], "scheduled");
        db.run(&["--until-empty"]).succeeded().complained(&["the run has ended: no job was due"]);
    }

    fn due_jobs_that_nobody_runs_are_named_at_the_end(db) {
        let db = db.migrated();
        let retired = db.enqueue(Greet { name: "Ada".to_owned() });
        db.enqueue(Wait { millis: 1 });
        let later = db.enqueue(jobs::Job::delay(Wait { millis: 1 }, std::time::Duration::from_millis(HOUR)));
        db.execute(&format!("update {} set kind = 'retired' where id = {retired}", db.waiting_table()));
        db.execute(&format!("update {} set queue = 'later' where id = {later}", db.waiting_table()));
        let queue = "the run ends although jobs are due: 1 job waits in queue `default`, and neither a live worker nor this program serves it. \
                     To repair it: start a worker";
        let kind = "1 job of kind `retired` waits in queue `mail`, and neither a live worker nor this program has a handler for it";
        let run = || db.run(&["run", "--until-empty", "--queues", "mail"]).succeeded();
        let ended = run().complained(&[queue, kind]).never_said("`later`");
        assert!(ended.stderr.lines().last().unwrap().contains("the run has ended: no job was due"), "{ended:#?}");
        // While a worker serves the other queue, the runs still serve theirs.
        let mut other = db.start(&["--queues", "default"]);
        other.await_line("worker started");
        run().complained(&[kind]).never_said("serves it");
        other.signal("TERM");
        other.ended().succeeded();
    }

    fn due_jobs_that_were_not_counted_before_are_named_at_the_end(db) {
        let db = db.migrated();
        // There are so many that workers count them only from time to time, and none has done so yet.
        let padded = format!(r#"{{"millis": 0, "padding": "{}"}}"#, "x".repeat(1000));
        db.enqueue_many_with("wait", "bulk", 20_001, &padded);
        let named = "the run ends although jobs are due: 20001 jobs wait in queue `bulk`";
        db.run(&["run", "--until-empty", "--queues", "mail"]).succeeded().complained(&[named]);
    }

    fn a_run_that_discards_a_job_exits_5(db) {
        let db = db.migrated();
        db.enqueue(Charge { card: "4111".to_owned() });
        db.enqueue(Wait { millis: 1 });
        // A queue that is not served counts as empty.
        let run = worker("fixture-worker").args(["run", "--queues", "mail"]).env("DATABASE_URL", &db.url);
        run.env("JOBS_UNTIL_EMPTY", "true").run().succeeded().complained(&["the run has ended: no job was due"]);
        let run = worker("fixture-worker").args(["run"]).env("DATABASE_URL", &db.url).env("JOBS_UNTIL_EMPTY", "1");
        run.run().exited(5).complained(&["the run has ended: 1 completed, 1 discarded"]);
    }

    fn a_signal_ends_the_run_as_ever(db) {
        let db = db.migrated();
        let gate = Gate::closed();
        let id = db.enqueue(WaitFor { file: gate.file() });
        let mut worker = db.start(&["run", "--until-empty", "--slots", "1", "--grace-period", "1h"]);
        db.await_state(id, "running");
        let left = db.enqueue(Wait { millis: 1 });
        worker.signal("TERM");
        worker.await_line("SIGTERM");
        gate.open();
        worker.ended().succeeded().complained(&["the run has ended: 1 completed"]).never_said("no job is due");
        assert_eq!(db.json(&["show", &left.to_string()])["state"], "available");
    }

    fn ticks_that_were_missed_are_named(db) {
        let db = scheduled(db.migrated(), "skip");
        let run = db.run(&["run", "--until-empty"]).succeeded();
        run.complained(&["schedule hourly: its ticks since", "were missed", "the run has ended: no job was due"]);
    }

    fn a_schedule_that_stands_still_is_named_wherever_one_looks(db) {
        let db = scheduled(db.migrated(), "skip");
        let year = if db.waiting_table() == "jobs.ready" { "interval '1 year'" } else { "31536000000000" };
        db.execute(&format!("update jobs.schedule set last_tick = last_tick + {year}"));
        let why = "in the future, so it stands still until then: the clock of the database has gone back";
        db.run(&["run", "--until-empty"]).succeeded().complained(&["WARN diesel_jobs: schedule hourly: its newest tick is at", why]);
        let shown = &db.json(&["schedules"])[0];
        assert!(shown["problem"].as_str().unwrap().ends_with(why), "{shown}");
        let (last, next) = (shown["last_tick"].as_str().unwrap(), shown["next"][0]["at"].as_str().unwrap());
        assert!(next > last, "{shown}");
    }

    fn a_due_tick_does_not_keep_the_run_while_the_database_is_frozen(db) {
        // Nobody may enqueue the tick before the thaw.
        let db = scheduled(db.migrated(), "last");
        db.run(&["freeze", "--reason", "restored", "--actor", "ada"]).succeeded();
        let run = db.run(&["run", "--until-empty"]).succeeded();
        run.complained(&["the run has ended: no job was due"]).never_said("ticks of schedules may be due");
        db.run(&["thaw", "--actor", "ada"]).succeeded();
        db.run(&["run", "--until-empty"]).succeeded().complained(&["the run has ended: 1 completed"]);
    }

    fn a_schema_that_is_missing_ends_the_run_at_its_start(db) {
        db.run(&["run", "--until-empty"]).exited(4);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |args: &[&str], value: &str, parts: &[&str]| {
        let worker = worker("fixture-worker").args(args).env("DATABASE_URL", "sqlite:///no/such/directory/jobs.db");
        worker.env("JOBS_UNTIL_EMPTY", value).run().exited(2).complained(parts);
    };
    refused(&["doctor", "--until-empty"], "", &["`doctor` runs no jobs", "write it after `run`"]);
    refused(&["--until-empty", "stats"], "", &["after the command"]);
    refused(&["run"], "maybe", &["JOBS_UNTIL_EMPTY", "\"maybe\" is neither true nor false"]);
}

#[test]
fn the_variable_does_not_concern_other_commands() {
    let db = Db::sqlite().migrated();
    let worker = worker("fixture-worker").args(["stats"]).env("DATABASE_URL", &db.url);
    worker.env("JOBS_UNTIL_EMPTY", "true").run().succeeded();
}
