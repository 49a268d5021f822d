//! `doctor` fails if something keeps jobs from running, and says what to do. It compares waiting jobs with the live
//! workers, and with this program while no worker is alive.

use std::time::Duration;

use fixture_app::{Greet, HOUR, Wait};
use jobs::Job as _;

use crate::support::pooler::Pooler;
use crate::support::{Db, Findings, Run, until, worker};

fn greet() -> Greet {
    Greet { name: "x".to_owned() }
}

fn found(db: &Db, args: &[&str]) -> Findings {
    Findings::of(&db.run(&[&["doctor", "--json"], args].concat()))
}

fn checks(db: &Db, args: &[&str]) -> Vec<String> {
    found(db, args).checks()
}

/// The output for people, apart from what it says of the server.
fn text(db: &Db, args: &[&str]) -> String {
    db.run(&[&["doctor"], args].concat()).stdout
}

/// Starts a worker, and waits until the database knows it.
fn start(db: &Db, args: &[&str]) -> crate::support::Running {
    let mut worker = db.start(args);
    worker.await_line("worker started");
    worker
}

fn run_at_an_hour(db: &Db) -> i64 {
    db.enqueue(greet().delay(Duration::from_secs(3600)))
}

fn only_the_schema(run: &Run) {
    let report = run.json();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(
        (findings.len(), &findings[0]["check"], &findings[0]["severity"]),
        (1, &"schema".into(), &"error".into())
    );
}

on_each_database! {
    fn a_fresh_database_has_no_problems(db) {
        assert!(checks(&db.migrated(), &[]).is_empty());
    }

    fn a_missing_schema_is_the_only_finding(db) {
        only_the_schema(&db.run(&["doctor", "--json"]).exited(4));
        let text = db.run(&["doctor"]).exited(4).stdout;
        assert!(text.starts_with("error[schema]: ") && text.contains("repair: worker migrate\n"), "{text}");
    }

    fn a_newer_schema_is_the_only_finding(db) {
        let db = db.migrated();
        db.execute("insert into jobs.schema_migration (version, name) values (99, 'future')");
        let run = db.run(&["doctor", "--json"]).exited(4);
        only_the_schema(&run);
        assert!(run.stdout.contains("deploy a program that is as new as the schema"), "{run:#?}");
    }

    fn due_jobs_without_a_worker_are_a_warning_until_the_objective(db) {
        let db = db.migrated();
        db.enqueue(greet());
        let seen = found(&db, &[]);
        assert_eq!(seen.checks(), ["warning:no_worker"]);
        let (what, repair) = seen.one("no_worker");
        assert!(what.starts_with("1 job is due, the oldest since ") && what.ends_with("no worker is alive. Queues: `mail`"), "{what}");
        assert_eq!(repair, "worker run");
        db.execute(&format!("update {} set run_at = run_at - {}", db.waiting_table(), db.ten_minutes()));
        assert_eq!(checks(&db, &[]), ["error:no_worker"]);
    }

    fn a_live_worker_that_serves_other_queues_leaves_jobs_waiting(db) {
        let db = db.migrated();
        db.enqueue(Wait { millis: 1 });
        let mut worker = start(&db, &["--queues", "mail=2"]);
        let seen = found(&db, &[]);
        assert_eq!(seen.checks(), ["error:unserved_queue"]);
        let (what, repair) = seen.one("unserved_queue");
        assert_eq!(what, "1 job waits in queue `default`, and no live worker serves it");
        assert_eq!(repair, "start a worker that serves it: worker run --queues default");
        let text = text(&db, &[]);
        assert!(text.contains(&format!("error[unserved_queue]: {what}\n  repair: {repair}\n")), "{text}");
        worker.kill();
    }

    fn while_no_worker_is_alive_this_program_counts(db) {
        let db = db.migrated();
        run_at_an_hour(&db);
        assert_eq!(checks(&db, &[]), [""; 0]);
        let seen = found(&db, &["--queues", "default"]);
        assert_eq!(seen.checks(), ["error:unserved_queue"]);
        assert_eq!(seen.one("unserved_queue").0, "1 job waits in queue `mail`, and neither a live worker nor this program serves it");
    }

    fn a_queue_that_a_live_worker_serves_is_no_problem(db) {
        let db = db.migrated();
        db.enqueue(Wait { millis: 1 }.delay(Duration::from_secs(3600)));
        let mut worker = start(&db, &["--queues", "default"]);
        assert!(checks(&db, &["--queues", "mail"]).is_empty());
        worker.kill();
    }

    fn before_a_deploy_the_program_is_compared_as_if_it_had_replaced_the_workers(db) {
        let db = db.migrated();
        let id = run_at_an_hour(&db);
        let mut worker = start(&db, &[]);
        db.execute(&format!("update {} set kind = 'retired' where id = {id}", db.waiting_table()));
        // The live worker is of a version that still knows the kind.
        db.execute("update jobs.worker set kinds = null");
        assert_eq!(checks(&db, &[]), [""; 0]);
        let seen = found(&db, &["--before-deploy"]);
        assert_eq!(seen.checks(), ["error:unknown_kind"]);
        assert_eq!(seen.one("unknown_kind").0, "1 job of kind `retired` waits in queue `mail`, and this program has no handler for it");
        assert!(seen.one("unknown_kind").1.contains("give a renamed job `aliases(\"retired\")`"));
        assert_eq!(checks(&db, &["--before-deploy", "--queues", "default"]), ["error:unserved_queue", "warning:unserved_default_queue"]);
        worker.kill();
    }

    fn a_kind_that_only_a_dead_worker_knew_is_an_error(db) {
        let db = db.migrated();
        let busy = db.enqueue(Wait { millis: HOUR });
        let mut dead = start(&db, &["--lease", "1h"]);
        db.await_state(busy, "running");
        dead.kill();
        db.let_leases_end();
        let id = run_at_an_hour(&db);
        db.execute(&format!("update {} set kind = 'retired' where id = {id}", db.waiting_table()));
        db.execute("update jobs.worker set kinds = null");
        let mut live = start(&db, &["--queues", "mail"]);
        let seen = found(&db, &[]);
        let (what, repair) = seen.one("unknown_kind");
        assert_eq!(what, "1 job of kind `retired` waits in queue `mail`, and no live worker that serves the queue has a handler for it");
        assert!(repair.ends_with(" --kind retired"), "{repair}");
        live.kill();
    }

    fn what_is_paused_is_said_once(db) {
        let db = db.migrated();
        db.enqueue(greet());
        db.enqueue(Wait { millis: 1 });
        for args in [["queues", "pause", "mail"], ["kinds", "pause", "wait"]] {
            worker("fixture-worker").args(args).args(["--actor", "ada", "--reason", "a move"]).env("DATABASE_URL", &db.url).run().succeeded();
        }
        let expected = ["warning:queue_paused", "warning:kind_paused"];
        assert_eq!(checks(&db, &["--objective", "1s"]), expected);
        let mut worker = start(&db, &["--queues", "default=2"]);
        assert_eq!(checks(&db, &["--objective", "1s"]), expected);
        let (what, repair) = found(&db, &[]).one("queue_paused");
        assert!(what.starts_with("queue `mail` is paused since ") && what.ends_with("by ada: a move; its jobs are not claimed"), "{what}");
        assert_eq!(repair, "worker queues resume mail");
        worker.kill();
    }

    fn a_queue_whose_slots_are_set_to_0_is_a_warning(db) {
        let db = db.migrated();
        worker("fixture-worker").args(["queues", "slots", "mail", "0", "--actor", "ada"]).env("DATABASE_URL", &db.url).run().succeeded();
        db.enqueue(greet());
        let mut worker = start(&db, &["--queues", "mail=2"]);
        let seen = found(&db, &[]);
        assert_eq!(seen.checks(), ["warning:no_slots"]);
        let (what, repair) = seen.one("no_slots");
        assert_eq!(what, "1 job waits in queue `mail`, and an operator has set its slots to 0");
        db.run(&repair.split(' ').skip(1).chain(["--actor", "ada"]).collect::<Vec<_>>()).succeeded();
        assert!(found(&db, &[]).checks().is_empty());
        worker.kill();
    }

    fn a_schedule_that_cannot_tick_is_an_error(db) {
        let db = db.migrated();
        db.execute(
            "insert into jobs.schedule (name, kind, expression, timezone, catch_up)
             values ('odd', 'greet', '0 0 0 30 2 *', 'UTC', 'skip'), ('lost', 'greet', '0 0 2 * * *', 'Mars/Base', 'skip')",
        );
        assert_eq!(checks(&db, &[]), ["error:schedule", "error:schedule"]);
        let text = text(&db, &[]);
        assert!(text.contains("never fires") && text.contains("Mars/Base"), "{text}");
    }

    fn a_schedule_whose_kind_no_live_worker_knows_is_a_warning(db) {
        let db = db.migrated();
        db.execute(
            "insert into jobs.schedule (name, kind, expression, timezone, catch_up) values ('nightly', 'greet', '0 0 2 * * *', 'UTC', 'skip')",
        );
        assert!(checks(&db, &[]).is_empty(), "this program knows the kind, and no worker is alive");
        let mut worker = start(&db, &[]);
        assert_eq!(checks(&db, &[]), [""; 0]);
        db.execute(&format!("update jobs.worker set kinds = {}", db.one_name("other")));
        let seen = found(&db, &[]);
        assert_eq!(seen.checks(), ["warning:unserved_schedule"]);
        assert_eq!(seen.one("unserved_schedule").0, "schedule `nightly` does not tick: its jobs are of kind `greet`, and no live worker knows the kind");
        assert!(checks(&db, &["--before-deploy"]).is_empty());
        worker.kill();
    }

    fn a_worker_logs_due_jobs_that_no_live_worker_runs(db) {
        let db = db.migrated();
        let retired = db.enqueue(greet());
        db.enqueue(Wait { millis: 1 });
        db.execute(&format!("update {} set kind = 'retired' where id = {retired}", db.waiting_table()));
        db.execute(&format!("update {} set run_at = run_at - {}", db.waiting_table(), db.ten_minutes()));
        let mut worker = db.start(&["--queues", "mail=2"]);
        worker.await_line("1 job waits in queue `default`, and no live worker serves it. To repair it: start a worker");
        worker.await_line("1 job of kind `retired` waits in queue `mail`, and no live worker that serves the queue has a handler for it");
        worker.signal("TERM");
        worker.ended().succeeded();
    }

    fn a_worker_that_would_not_start_is_an_error(db) {
        let db = db.migrated();
        let doctor = |binary: &str| Findings::of(&worker(binary).args(["doctor", "--json"]).env("DATABASE_URL", &db.url).run());
        assert_eq!(doctor("bare-worker").checks(), ["error:worker"]);
        assert_eq!(doctor("stateless-worker").checks(), ["error:worker"]);
        assert_eq!(doctor("broken-worker").checks(), ["error:worker"]);
    }

    fn a_variable_that_no_command_reads_is_a_warning(db) {
        let db = db.migrated();
        let run = worker("fixture-worker").args(["doctor", "--json"]).env("DATABASE_URL", &db.url).env("JOBS_SLOT", "3").run();
        let (what, _) = Findings::of(&run).one("unknown_variable");
        assert!(what.contains("JOBS_SLOT is unknown") && what.contains("did you mean JOBS_SLOTS?"), "{what}");
    }
}

#[test]
fn the_earlier_name_of_doctor_is_refused_in_words() {
    for args in [&["check"][..], &["check", "--queues", "mail", "--json"]] {
        worker("fixture-worker").args(args).run().exited(2).complained(&["write `worker doctor`", "--before-deploy"]);
    }
}

#[test]
fn rows_that_were_set_apart_are_a_warning_and_can_be_put_back() {
    let db = Db::postgres().migrated();
    assert_eq!(checks(&db, &[]), [""; 0]);
    let small = db.enqueue(Greet { name: "ada".to_owned() });
    let large = db.enqueue(Greet { name: "ada".repeat(2000) });
    db.execute("update jobs.ready set lease = 2147483647, tags = array['vip']");
    let mut process = db.start(&[]);
    process.await_line("set apart in jobs.dead_letter");
    process.await_line("set apart in jobs.dead_letter");
    // One at a time, because it is not defined which of the two is the newest.
    db.execute(&format!(
        "delete from jobs.dead_letter where id <> {small}; select jobs.put_back(number) from jobs.dead_letter"
    ));
    let again = large + 1;
    db.await_state(again, "completed");
    process.kill();
    // The large arguments of the row that was deleted above.
    assert_eq!(checks(&db, &[]), ["warning:orphan"]);

    let insert = |id: i64, job: &str| {
        db.execute(&format!(
            "insert into jobs.dead_letter (id, kind, queue, reason, job)
             values ({id}, 'greet', 'mail', 'its id is that of a running job', '{job}')"
        ));
    };
    // Large arguments are still in `jobs.payload`.
    insert(large, r#"{"priority": 3, "max_attempts": 4, "tags": ["vip", "b"], "args": null}"#);
    let text = text(&db, &[]);
    for part in [
        "warning[set_apart]: 1 row was set apart in jobs.dead_letter",
        &format!("job {large} of kind `greet` in queue `mail`: its id is that of a running job"),
        "  repair: to see it: select * from jobs.dead_letter order by number desc\n",
        "          to drop it: delete from jobs.dead_letter where number = 3\n",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(checks(&db, &[]), ["warning:set_apart"]);
    db.execute("select jobs.put_back(3)");
    let shown = db.json(&["show", &(again + 1).to_string()]);
    assert_eq!(
        (&shown["priority"], &shown["max_attempts"], &shown["tags"]),
        (&3.into(), &4.into(), &vec!["vip", "b"].into())
    );
    assert_eq!(shown["args"]["name"].as_str().map(str::len), Some(6000));

    insert(small, r#"{"state": 1, "priority": 0, "max_attempts": 1, "tags": null, "args": {}}"#);
    let refused = db.migrate_with("select jobs.put_back(4)", false).unwrap_err();
    assert!(refused.contains("has ended, and this is its history"), "{refused}");
    assert!(db.migrate_with("select jobs.put_back(99)", false).unwrap_err().contains("no number 99"));
}

#[test]
fn a_pooler_without_prepared_statements_is_found_and_named_by_every_command() {
    let db = Db::postgres().migrated();
    let through =
        |pooler: &Pooler, args: &[&str]| worker("fixture-worker").args(args).env("DATABASE_URL", pooler.url()).run();
    let advice = "PgBouncer does so from version 1.21 on";
    // Nobody has prepared anything. Then the sessions have some of what the first process has prepared. Then a
    // statement of the doctor is another one in all sessions but the first, and at last every name is taken.
    let (pooler, used) = (Pooler::start(&db.url), Pooler::used(&db.url, 0, 0..200));
    let partly = Pooler::used(&db.url, 1, 6..7);
    for pooler in [&pooler, &pooler, &partly, &used] {
        let run = through(pooler, &["doctor"]).exited(1);
        for part in ["error[pooler]", advice, "1 error and 0 warnings\n"] {
            assert!(run.stdout.contains(part), "{part:?} is missing: {run:#?}");
        }
    }
    for args in [&["list"][..], &["stats"], &["queues"], &["audit"], &["run", "--until-empty"]] {
        through(&used, args).exited(1).complained(&["prepared statement \"", advice]);
    }
}

#[test]
fn short_time_limits_of_the_database_hide_no_finding() {
    let db = Db::postgres().migrated();
    let (_, name) = db.server();
    db.enqueue_many("retired", "aside", 1);
    for owner in [format!("database {name}"), format!("role tester in database {name}")] {
        db.execute(&format!("alter {owner} set statement_timeout = '1s'; alter {owner} set lock_timeout = '1s'"));
        db.execute_in_background(
            "begin; lock table jobs.dead_letter; set local statement_timeout = 0; select pg_sleep(3600)",
        );
        db.await_sleep();
        let report = std::thread::scope(|scope| {
            let doctor = scope.spawn(|| db.run(&["doctor", "--json"]).json());
            // A check that reads this table takes longer than the limits.
            until(|| {
                let late = "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                            and query_start < clock_timestamp() - interval '2 seconds'";
                (doctor.is_finished() || db.count(late) == 1).then_some(()).ok_or("no check waits")
            });
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and wait_event = 'PgSleep'",
            );
            doctor.join().unwrap()
        });
        let of = |key: &str, value: &str| {
            let findings = report["findings"].as_array().unwrap().iter();
            findings.filter(|one| one[key] == value).collect::<Vec<_>>()
        };
        assert_eq!((of("severity", "skipped").len(), of("check", "unserved_queue").len()), (0, 1), "{report}");
        // What it sets for itself, it does not take for the setting of the database.
        let reset = format!("alter {owner} reset statement_timeout");
        let [setting] = of("repair", &reset)[..] else { panic!("{report}") };
        assert!(setting["what"].as_str().unwrap().starts_with("statements are cancelled after 1000 ms"), "{setting}");
        db.execute(&reset);
    }
}
