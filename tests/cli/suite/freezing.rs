//! `freeze`, `thaw` and `environment`, with real workers.

use fixture_app::{Charge, Greet, HOUR, Wait, WaitFor};
use serde_json::Value;

use crate::support::http::{address, await_searches};
use crate::support::{Db, Findings, Gate, Run, worker};

fn greet() -> Greet {
    Greet { name: "x".to_owned() }
}

/// Runs a command as the user `anna`.
fn as_anna(db: &Db, args: &[&str]) -> Run {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("SUDO_USER", "").env("USER", "anna").run()
}

/// Runs a command, or a worker, in this environment.
fn in_environment(db: &Db, environment: &str, args: &[&str]) -> Run {
    worker("fixture-worker").args(args).env("DATABASE_URL", &db.url).env("JOBS_ENVIRONMENT", environment).run()
}

fn state(db: &Db, id: i64) -> String {
    db.json(&["show", &id.to_string()])["state"].as_str().unwrap().to_owned()
}

on_each_database! {
    fn a_frozen_database_is_left_alone_until_it_is_thawed(db) {
        let db = db.migrated();
        let said = as_anna(&db, &["freeze", "--reason", "restored for ticket 7"]).succeeded().stdout;
        assert!(said.contains("by anna: restored for ticket 7") && said.contains("to end it: `worker thaw`"), "{said}");
        let id = db.enqueue(greet());
        // With a short poll interval, so that the worker certainly searches for jobs.
        let mut worker = db.start(&["--poll-interval", "50ms", "--lease", "10s", "--listen", "127.0.0.1:0"]);
        let address = address(&mut worker);
        worker.await_line("restored for ticket 7. Nothing is claimed and no schedule ticks until `worker thaw`");
        await_searches(&address);
        assert_eq!(state(&db, id), "available");

        // Each of these commands reports the freeze.
        for (args, answer) in [(&["stats"][..], "frozen since"), (&["show", &id.to_string()], "frozen since")] {
            let text = db.run(args).succeeded().stdout;
            assert!(text.starts_with(answer) && text.contains("by anna: restored for ticket 7") && text.contains("worker thaw"), "{text}");
        }
        assert_eq!(db.json(&["stats"])["frozen"]["by"], "anna");
        assert_eq!(db.json(&["show", &id.to_string()])["frozen"]["reason"], "restored for ticket 7");
        let found = Findings::of(&db.run(&["doctor", "--json"]));
        assert_eq!(found.checks(), ["warning:frozen"]);
        let (what, repair) = found.one("frozen");
        assert!(what.contains("by anna: restored for ticket 7"), "{what}");
        assert_eq!(repair, "worker thaw");

        assert_eq!(as_anna(&db, &["thaw"]).succeeded().stdout, "thawed: workers claim again\n");
        db.await_state(id, "completed");
        worker.await_line("the database was thawed");
        assert_eq!(as_anna(&db, &["thaw"]).succeeded().stdout, "it was not frozen\n");
        assert_eq!(db.json(&["stats"])["frozen"], Value::Null);
    }

    fn a_running_worker_claims_nothing_from_a_freeze_on_and_its_jobs_go_on(db) {
        let db = db.migrated();
        let mut worker = db.start(&["--queues", "default=2,mail=2", "--poll-interval", "100ms", "--lease", "10s", "--listen", "127.0.0.1:0"]);
        let (address, gate) = (address(&mut worker), Gate::closed());
        let running = db.enqueue(WaitFor { file: gate.file() });
        db.await_state(running, "running");
        db.run(&["freeze", "--reason", "an incident", "--actor", "bert"]).succeeded();
        let waiting: Vec<i64> = (0..20).map(|_| db.enqueue(greet())).collect();
        worker.await_line("by bert: an incident");
        await_searches(&address);
        gate.open();
        db.await_state(running, "completed");
        assert!(waiting.iter().all(|id| state(&db, *id) == "available"));
        let again = db.run(&["freeze", "--reason", "another", "--actor", "carl"]).succeeded().stdout;
        assert!(again.contains("already") && again.contains("by bert: an incident"), "{again}");
        as_anna(&db, &["thaw"]).succeeded();
        waiting.iter().for_each(|id| drop(db.await_state(*id, "completed")));
    }

    fn a_thaw_may_first_cancel_what_came_with_the_copy(db) {
        let db = db.migrated();
        let mut lost = db.start(&[]);
        let running = db.enqueue(Wait { millis: HOUR });
        db.await_state(running, "running");
        lost.kill();
        let waiting: Vec<i64> = (0..2500).step_by(500).map(|_| db.enqueue(greet())).collect();
        db.run(&["freeze", "--reason", "restored", "--actor", "anna"]).succeeded();
        let thawed = as_anna(&db, &["thaw", "--cancel-jobs"]).succeeded().stdout;
        assert_eq!(thawed, format!("cancelled {} jobs; schedules continue from now\nthawed: workers claim again\n", waiting.len() + 1));
        let new = db.enqueue(greet());
        let _worker = db.start(&[]);
        db.await_state(new, "completed");
        assert!(waiting.iter().chain([&running]).all(|id| state(&db, *id) == "cancelled"));
    }

    fn a_job_that_is_not_cancelled_is_named_and_the_others_are_cancelled(db) {
        let db = db.migrated();
        let ids: Vec<i64> = (0..5).map(|_| db.enqueue(greet())).collect();
        db.run(&["freeze", "--reason", "restored", "--actor", "anna"]).succeeded();
        let bad = ids[2];
        if db.url.starts_with("sqlite") {
            db.execute(&format!("create trigger needed before update of state on jobs.job when new.id = {bad} begin select raise(abort, 'it is needed'); end"));
        } else {
            db.execute(&format!(
                "create function needed() returns trigger language plpgsql as $$ begin raise exception 'it is needed' using errcode = '55000'; end $$;
                 create trigger needed before insert on jobs.finished for each row when (new.id = {bad}) execute function needed()"
            ));
        }
        let left = format!("left out job {bad}: ");
        let thaw = || as_anna(&db, &["thaw", "--cancel-jobs"]);
        thaw().exited(1).complained(&["cancelled 4 jobs; ", &left, "it is needed", "repeat the command"]);
        assert!(ids.iter().all(|id| (state(&db, *id) == "cancelled") == (*id != bad)));
        assert_eq!(db.json(&["stats"])["frozen"]["reason"], "restored");
        db.execute(if db.url.starts_with("sqlite") { "drop trigger needed" } else { "drop trigger needed on jobs.finished" });
        assert_eq!(thaw().succeeded().stdout, "cancelled 1 job; schedules continue from now\nthawed: workers claim again\n");
        assert_eq!(state(&db, bad), "cancelled");
    }

    fn a_reason_is_asked_for_in_words_and_an_actor_is_not(db) {
        let db = db.migrated();
        assert!(db.run(&["freeze"]).exited(2).stderr.contains("--reason"));
        db.run(&["freeze", "--reason", " ", "--actor", "anna"]).exited(2).complained(&["--reason must not be empty"]);
        // In a container without a user.
        let nobody = || {
            let names = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"];
            names.iter().fold(worker("fixture-worker"), |worker, name| worker.env(name, "")).env("DATABASE_URL", &db.url)
        };
        let id = db.enqueue(greet()).to_string();
        let commands =
            [&["freeze", "--reason", "x"][..], &["thaw"], &["environment", "set", "x", "--keep-jobs"], &["environment", "unset"], &["queues", "pause", "mail"], &["cancel", &id]];
        for args in commands {
            nobody().args(args).run().succeeded();
            assert_eq!(db.json(&["audit", "--limit", "1"])[0]["actor"], "an operator", "{args:?}");
        }
        let frozen = nobody().args(["freeze", "--reason", "x"]).env("JOBS_ACTOR", "cleo").run().succeeded().stdout;
        assert!(frozen.contains("by cleo: x"), "{frozen}");
    }

    fn changes_of_the_whole_database_are_in_the_audit(db) {
        let db = db.migrated();
        let id = db.enqueue(greet());
        as_anna(&db, &["environment", "set", "staging"]).succeeded();
        as_anna(&db, &["freeze", "--reason", "a restore is checked"]).succeeded();
        as_anna(&db, &["thaw", "--cancel-jobs", "--actor", "bert"]).succeeded();
        as_anna(&db, &["environment", "unset"]).succeeded();
        let audit = db.json(&["audit"]);
        let rows: Vec<String> = audit.as_array().unwrap().iter().rev().map(|row| format!("{} {} {}", row["actor"], row["action"], row["target"]).replace('"', "")).collect();
        let cancelled = format!("bert cancel job {id}");
        assert_eq!(rows, [
            "anna set_environment the database",
            "anna freeze the database",
            cancelled.as_str(),
            "bert forget_missed_ticks all schedules",
            "bert thaw the database",
            "anna set_environment the database",
        ]);
        let text = db.run(&["audit"]).succeeded().stdout;
        assert!(text.contains("a restore is checked") && text.contains(r#""environment":"staging""#), "{text}");
    }

    fn a_freeze_needs_the_schema_of_this_version(db) {
        let commands = [&["freeze", "--reason", "x", "--actor", "anna"][..], &["thaw", "--actor", "anna"], &["environment"], &["environment", "set", "x", "--actor", "anna"]];
        for args in commands {
            db.run(args).exited(4).complained(&["migrate"]);
        }
        let db = db.migrated();
        db.execute("insert into jobs.schema_migration (version, name) values (99, 'future')");
        for args in commands {
            db.run(args).exited(4).complained(&["newer"]);
        }
    }

    fn a_database_without_a_name_is_served_as_ever(db) {
        let db = db.migrated();
        assert!(db.run(&["environment"]).succeeded().stdout.contains("no name"));
        assert_eq!(db.json(&["environment"])["environment"], Value::Null);
        let _plain = db.start(&[]);
        db.await_state(db.enqueue(greet()), "completed");
        let mut named = db.start(&["--environment", "staging"]);
        named.await_line("`worker environment set staging` names the database");
        let found = Findings::of(&in_environment(&db, "staging", &["doctor", "--json"]));
        assert_eq!(found.one("unnamed_database").1, "worker environment set staging");
    }

    fn workers_of_another_environment_do_not_start(db) {
        let db = db.migrated();
        as_anna(&db, &["environment", "set", "production"]).succeeded();
        assert_eq!(db.run(&["environment"]).succeeded().stdout, "production\n");
        let id = db.enqueue(greet());
        let foreign = in_environment(&db, "staging", &[]).exited(1);
        foreign.complained(&["belongs to the environment `production`", "this worker to `staging`", "worker environment set --cancel-jobs staging"]);
        let nameless = db.run(&[]).exited(1);
        nameless.complained(&["this worker names none", "JOBS_ENVIRONMENT=production", "--cancel-jobs"]);
        for run in [in_environment(&db, "staging", &["doctor", "--json"]), db.run(&["doctor", "--json"])] {
            assert!(Findings::of(&run).one("environment").0.contains("`production`"));
        }
        assert_eq!(state(&db, id), "available");
        let _own = db.start(&["--environment", "production"]);
        db.await_state(id, "completed");
    }

    fn a_copy_is_adopted_with_its_jobs_or_without(db) {
        let db = db.migrated();
        as_anna(&db, &["environment", "set", "production"]).succeeded();
        let id = db.enqueue(greet());
        let unsure = as_anna(&db, &["environment", "set", "staging"]).exited(1);
        unsure.complained(&["1 job of `production`", "--cancel-jobs", "--keep-jobs"]);
        let kept = as_anna(&db, &["environment", "set", "staging", "--keep-jobs"]).succeeded().stdout;
        assert!(kept.starts_with("this database belongs to `staging`"), "{kept}");
        assert_eq!(state(&db, id), "available");
        let cancelled = as_anna(&db, &["environment", "set", "test", "--cancel-jobs", "--json"]).succeeded().json();
        assert_eq!((&cancelled["environment"], &cancelled["cancelled"]), (&Value::from("test"), &Value::from(1)));
        assert_eq!(state(&db, id), "cancelled");
        // No job waits any more, so no choice is needed.
        as_anna(&db, &["environment", "set", "other"]).succeeded();
        as_anna(&db, &["environment", "unset"]).succeeded();
        assert_eq!(db.json(&["environment"])["environment"], Value::Null);
    }

    fn a_database_at_work_is_not_taken_from_its_workers(db) {
        let db = db.migrated();
        as_anna(&db, &["environment", "set", "production"]).succeeded();
        let mut worker = db.start(&["--environment", "production"]);
        let id = db.enqueue(Charge { card: "x".to_owned() });
        db.await_state(id, "discarded");
        let refused = as_anna(&db, &["environment", "set", "staging", "--cancel-jobs"]).exited(1);
        refused.complained(&["1 worker is at work on this database of `production`", "is the URL right?"]);
        assert_eq!(db.run(&["environment"]).succeeded().stdout, "production\n");
        worker.kill();
        db.let_leases_end();
        as_anna(&db, &["environment", "set", "staging"]).succeeded();
    }
}
