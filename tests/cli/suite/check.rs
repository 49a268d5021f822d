//! `check` fails if something would keep jobs from running, and says what to do.

use std::time::Duration;

use fixture_app::{Greet, HOUR, Wait};
use jobs::Job as _;
use serde_json::Value;

use crate::support::{Db, Run, worker};

fn codes(run: &Run) -> Vec<String> {
    let report = run.json();
    let findings = report["findings"].as_array().unwrap();
    let code =
        |finding: &Value| format!("{}:{}", finding["level"].as_str().unwrap(), finding["code"].as_str().unwrap());
    findings.iter().map(code).collect()
}

on_each_database! {
    fn a_fresh_database_has_no_problems(db) {
        let db = db.migrated();
        assert_eq!(db.run(&["check"]).succeeded().stdout, "no problems\n");
        let report = db.json(&["check"]);
        assert_eq!((&report["ok"], &report["findings"]), (&Value::Bool(true), &Value::Array(vec![])));
    }

    fn a_missing_schema_is_found(db) {
        let run = db.run(&["check", "--json"]).exited(4);
        assert_eq!(codes(&run), ["error:schema"]);
        assert!(db.run(&["check"]).exited(4).stdout.contains("help: run `migrate`"));
    }

    fn a_newer_schema_is_found(db) {
        let db = db.migrated();
        db.execute("insert into jobs.schema_migration (version, name) values (99, 'future')");
        assert_eq!(codes(&db.run(&["check", "--json"]).exited(4)), ["error:schema"]);
    }

    fn due_jobs_without_a_worker_are_a_warning(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() });
        assert_eq!(codes(&db.run(&["check", "--json"]).succeeded()), ["warning:no_worker"]);
        let text = db.run(&["check"]).succeeded().stdout;
        assert!(text.starts_with("warning: 1 job is due and no worker is alive") && text.ends_with("0 errors and 1 warning\n"), "{text}");
    }

    fn a_queue_without_a_worker_is_an_error(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() }.delay(Duration::from_secs(3600)));
        let run = db.run(&["check", "--queues", "default", "--json"]).exited(1);
        assert_eq!(codes(&run), ["error:unserved_queue"]);
        let text = db.run(&["check", "--queues", "default"]).exited(1).stdout;
        assert!(text.contains("1 job waits in queue `mail`") && text.contains("help: serve it: `--queues mail`"), "{text}");
    }

    fn a_queue_that_a_live_worker_serves_is_none(db) {
        let db = db.migrated();
        let busy = db.enqueue(Wait { millis: HOUR });
        db.enqueue(Wait { millis: 1 }.delay(Duration::from_secs(3600)));
        let mut worker = db.start(&["--queues", "default"]);
        db.await_state(busy, "running");
        assert!(codes(&db.run(&["check", "--queues", "mail", "--json"]).succeeded()).is_empty());
        worker.kill();
    }

    fn a_kind_without_a_handler_is_an_error(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "x".to_owned() }.delay(Duration::from_secs(3600)));
        db.execute(&format!("update {} set kind = 'retired' where id = {id}", db.waiting_table()));
        let run = db.run(&["check", "--json"]).exited(1);
        assert_eq!(codes(&run), ["error:unserved_kind"]);
        assert!(db.run(&["check"]).exited(1).stdout.contains("1 job of kind `retired` waits in queue `mail`"));
    }

    fn a_stored_schedule_that_cannot_tick_is_an_error(db) {
        let db = db.migrated();
        db.execute(
            "insert into jobs.schedule (name, kind, expression, timezone, catch_up)
             values ('odd', 'greet', '0 0 0 30 2 *', 'UTC', 'skip'), ('lost', 'greet', '0 0 2 * * *', 'Mars/Base', 'skip')",
        );
        let run = db.run(&["check", "--json"]).exited(1);
        assert_eq!(codes(&run), ["error:bad_schedule", "error:bad_schedule"]);
        let text = db.run(&["check"]).exited(1).stdout;
        assert!(text.contains("never fires") && text.contains("Mars/Base"), "{text}");
    }

    fn a_worker_that_would_not_start_is_an_error(db) {
        let db = db.migrated();
        let check = |binary: &str| worker(binary).args(["check", "--json"]).env("DATABASE_URL", &db.url).run().exited(1);
        assert_eq!(codes(&check("bare-worker")), ["error:worker"]);
        assert_eq!(codes(&check("stateless-worker")), ["error:worker"]);
        assert_eq!(codes(&check("broken-worker")), ["error:worker"]);
    }
}

#[test]
fn rows_that_were_set_apart_are_a_warning_and_can_be_put_back() {
    let db = Db::postgres().migrated();
    assert!(codes(&db.run(&["check", "--json"]).succeeded()).is_empty());
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
    assert!(codes(&db.run(&["check", "--json"]).succeeded()).is_empty());

    let insert = |id: i64, job: &str| {
        db.execute(&format!(
            "insert into jobs.dead_letter (id, kind, queue, reason, job)
             values ({id}, 'greet', 'mail', 'its id is that of a running job', '{job}')"
        ));
    };
    // Large arguments are still in `jobs.payload`.
    insert(large, r#"{"priority": 3, "max_attempts": 4, "tags": ["vip", "b"], "args": null}"#);
    let text = db.run(&["check"]).succeeded().stdout;
    for part in [
        "warning: 1 row was set apart in jobs.dead_letter",
        &format!("job {large} of kind `greet` in queue `mail`: its id is that of a running job"),
        "help: to see it: `select * from jobs.dead_letter order by number desc`",
        "`delete from jobs.dead_letter where number = 3`",
        "0 errors and 1 warning",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(codes(&db.run(&["check", "--json"]).succeeded()), ["warning:set_apart"]);
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
