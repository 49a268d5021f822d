//! What the commands that act on jobs print beside their effect: warnings, and summaries of many jobs.

use std::time::Duration;

use fixture_app::Greet;
use jobs::Job as _;

use crate::support::{Db, Prepared, Run, until, worker};

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

on_each_database! {
    fn a_move_to_a_queue_that_nobody_serves_is_warned_about(db) {
        let db = db.migrated();
        let id = db.enqueue(greet()).to_string();
        let warns = |run: Run, part: &str| assert_eq!(run.stderr.matches(part).count(), 1, "{run:#?}");
        let nobody = "warning: no live worker serves the queue `adhoc`; jobs that are moved there wait until a worker does: `worker run --queues adhoc`";
        warns(run(&db, &["move", "--to", "adhoc", "--queue", "mail", "--dry-run"]).succeeded(), nobody);
        let asked = prepared(&db, &["move", "--to", "adhoc", "--queue", "mail"]).run_with_input("no\n").exited(1);
        assert!(asked.stderr.find(nobody) < asked.stderr.find("Write `yes`"), "{asked:#?}");
        warns(asked, nobody);
        warns(run(&db, &["move", "--to", "adhoc", "--queue", "mail", "--yes"]).succeeded(), nobody);
        warns(run(&db, &["move", "--to", "adhoc", &id]).succeeded(), nobody);

        run(&db, &["queues", "pause", "adhoc"]).succeeded();
        let _worker = db.start(&["--queues", "adhoc=1,mail=1"]);
        until(|| db.json(&["workers"])[0]["id"].is_string().then_some(()).ok_or("the worker has not started"));
        warns(run(&db, &["move", "--to", "adhoc", &id]).succeeded(), "warning: queue `adhoc` is paused since");
        run(&db, &["queues", "resume", "adhoc"]).succeeded();
        db.await_state(id.parse().unwrap(), "completed");
        let later = db.enqueue(greet().delay(Duration::from_secs(3600))).to_string();
        let fine = run(&db, &["move", "--to", "adhoc", &later]).succeeded();
        assert!(!fine.stderr.contains("warning"), "{fine:#?}");
    }

    fn many_ids_are_answered_with_a_summary(db) {
        let db = db.migrated();
        db.enqueue_many("wait", "default", 30);
        let listed = db.json(&["list", "--limit", "100"]);
        let ids: Vec<String> = listed.as_array().unwrap().iter().map(|job| job["id"].to_string()).collect();
        let with = |command: &str, more: &[&str]| {
            let args: Vec<&str> = std::iter::once(command).chain(ids.iter().map(String::as_str)).chain(more.iter().copied()).collect();
            run(&db, &args)
        };
        assert_eq!(with("cancel", &["--dry-run"]).succeeded().stdout, "30 jobs would be changed\n");
        assert_eq!(with("cancel", &[]).succeeded().stdout, "30 jobs changed\n");
        let again = with("cancel", &["999999"]).exited(1).stdout;
        let lines: Vec<&str> = again.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[1]), (23, "0 jobs changed", "31 jobs left out:"));
        assert!(lines[2].ends_with("is cancelled: it has ended already, so there is nothing to cancel"), "{again}");
        assert_eq!(lines[22], "and 11 others; --json has them all");
        assert_eq!(with("cancel", &["--json"]).exited(1).json().as_array().unwrap().len(), 30);
    }
}
