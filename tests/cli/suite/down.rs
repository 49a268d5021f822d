//! What `diesel migration revert` runs: the copied `down.sql`, in one transaction, as Diesel runs it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use background::Job as _;
use fixture_app::{Greet, Wait};

use crate::support::{Db, Scratch};

const FOLDER: &str = "0000-00-00-000001_jobs_0001_jobs";

/// Returns the content of a file in the copied folder.
fn copied(db: &Db, file: &str) -> String {
    let scratch = Scratch::new();
    db.run(&["migrations", "copy", scratch.path().to_str().unwrap()]).succeeded();
    fs::read_to_string(scratch.path().join(FOLDER).join(file)).unwrap()
}

on_each_database! {
    fn waiting_jobs_are_not_deleted_in_silence(db) {
        db.migrate_with(&copied(&db, "up.sql"), false).unwrap();
        let id = db.enqueue(Greet { name: "x".to_owned() }.delay(Duration::from_secs(3600)));
        let refusal = db.migrate_with(&copied(&db, "down.sql"), false).unwrap_err();
        assert!(refusal.contains("would delete") && refusal.contains("--delete-jobs"), "{refusal}");
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "scheduled");
        // The failed attempt does not prevent the next one.
        db.migrate_with(&copied(&db, "down.sql"), false).unwrap_err();
        db.migrate_with(&copied(&db, "down.sql"), true).unwrap();
        db.run(&["stats"]).exited(4);
        db.migrate_with(&copied(&db, "up.sql"), false).unwrap();
        // The permission held for one revert only.
        db.enqueue(Greet { name: "x".to_owned() });
        db.migrate_with(&copied(&db, "down.sql"), false).unwrap_err();
    }

    fn running_jobs_are_not_deleted_in_silence(db) {
        let db = db.migrated();
        let id = db.enqueue(Wait { millis: 60_000 });
        let mut worker = db.start(&[]);
        db.await_state(id, "running");
        worker.kill();
        let refusal = db.migrate_with(&copied(&db, "down.sql"), false).unwrap_err();
        assert!(refusal.contains("would delete"), "{refusal}");
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "running");
    }

    fn history_needs_no_permission(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "x".to_owned() });
        let worker = db.start(&[]);
        db.await_state(id, "completed");
        worker.signal("TERM");
        worker.ended(Duration::from_secs(30)).succeeded();
        db.migrate_with(&copied(&db, "down.sql"), false).unwrap();
        db.run(&["stats"]).exited(4);
    }
}

/// psql continues after an error, unless it is configured otherwise.
#[test]
fn psql_deletes_nothing_either_unless_a_setting_says_so() {
    let db = Db::postgres().migrated();
    let id = db.enqueue(Greet { name: "x".to_owned() });
    let scratch = Scratch::new();
    db.run(&["migrations", "copy", scratch.path().to_str().unwrap()]).succeeded();
    let psql = |options: &str| {
        let bin = std::env::var("JOBS_TEST_PG_BIN").expect("JOBS_TEST_PG_BIN");
        let mut command = Command::new(format!("{bin}/psql"));
        command.args(["--no-psqlrc", "--quiet", &db.url, "--file"]).arg(scratch.path().join(FOLDER).join("down.sql"));
        let output = command.env("PGOPTIONS", options).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let refusal = psql("");
    assert!(refusal.contains("1 waiting and 0 running") && refusal.contains("PGOPTIONS"), "{refusal}");
    assert_eq!(db.json(&["show", &id.to_string()])["state"], "available");
    // This setting also works for `diesel migration revert`.
    assert_eq!(psql("-c jobs.allow_drop=on"), "");
    db.run(&["stats"]).exited(4);
}
