//! What `diesel migration revert` runs: the copied `down.sql`, in one transaction, as Diesel runs it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use fixture_app::{Greet, HOUR, Wait};
use jobs::Job as _;
use jobs::migrations::{Migration, POSTGRES};
use jobs::rules::Limit;

use crate::support::{Db, Scratch};

/// Returns the contents of a file in the copied folders, in their order.
fn copied(db: &Db, file: &str) -> Vec<String> {
    let scratch = Scratch::new();
    db.run(&["migrations", "copy", scratch.path().to_str().unwrap()]).succeeded();
    POSTGRES
        .iter()
        .map(|version| fs::read_to_string(scratch.path().join(version.folder()).join(file)).unwrap())
        .collect()
}

/// Migrates with the copies.
fn up(db: &Db) {
    for up in copied(db, "up.sql") {
        db.migrate_with(&up, false).unwrap();
    }
}

/// Reverts all versions, the newest first.
fn down(db: &Db, with_jobs: bool) -> Result<(), String> {
    copied(db, "down.sql").iter().rev().try_for_each(|down| db.migrate_with(down, with_jobs))
}

on_each_database! {
    fn waiting_jobs_are_not_deleted_in_silence(db) {
        up(&db);
        let id = db.enqueue(Greet { name: "x".to_owned() }.delay(Duration::from_secs(3600)));
        let refusal = down(&db, false).unwrap_err();
        assert!(refusal.contains("would delete") && refusal.contains("--delete-jobs"), "{refusal}");
        db.run(&["migrate"]).succeeded();
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "scheduled");
        // The failed attempt does not prevent the next one.
        down(&db, false).unwrap_err();
        down(&db, true).unwrap();
        db.run(&["stats"]).exited(4);
        up(&db);
        // The permission held for one revert only.
        db.enqueue(Greet { name: "x".to_owned() });
        down(&db, false).unwrap_err();
    }

    fn held_jobs_are_not_deleted_in_silence(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() }.concurrency(Limit::new("few", 1)));
        let refusal = down(&db, false).unwrap_err();
        assert!(refusal.contains("would delete"), "{refusal}");
        down(&db, true).unwrap();
    }

    fn running_jobs_are_not_deleted_in_silence(db) {
        let db = db.migrated();
        let id = db.enqueue(Wait { millis: HOUR });
        let mut worker = db.start(&[]);
        db.await_state(id, "running");
        worker.kill();
        let refusal = down(&db, false).unwrap_err();
        assert!(refusal.contains("would delete"), "{refusal}");
        db.run(&["migrate"]).succeeded();
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "running");
    }

    fn history_needs_no_permission(db) {
        let db = db.migrated();
        let id = db.enqueue(Greet { name: "x".to_owned() });
        let worker = db.start(&[]);
        db.await_state(id, "completed");
        worker.signal("TERM");
        worker.ended().succeeded();
        down(&db, false).unwrap();
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
        let revert = |version: &Migration| {
            let file = scratch.path().join(version.folder()).join("down.sql");
            let mut command = Command::new(format!("{bin}/psql"));
            command.args(["--no-psqlrc", "--quiet", &db.url, "--file"]).arg(file);
            String::from_utf8(command.env("PGOPTIONS", options).output().unwrap().stderr).unwrap()
        };
        POSTGRES.iter().rev().map(revert).collect::<String>()
    };
    let refusal = psql("");
    assert!(refusal.contains("1 waiting and 0 running") && refusal.contains("PGOPTIONS"), "{refusal}");
    db.run(&["migrate"]).succeeded();
    assert_eq!(db.json(&["show", &id.to_string()])["state"], "available");
    // This setting also works for `diesel migration revert`.
    assert_eq!(psql("-c jobs.allow_drop=on"), "");
    db.run(&["stats"]).exited(4);
}
