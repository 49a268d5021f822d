//! `migrate`: up, down, status and the printed SQL.

use fixture_app::Greet;
use jobs::migrations::POSTGRES;
use serde_json::{Value, json};

use crate::support::{Db, worker};

/// The directories of all versions, oldest first. They are the same for each database.
fn versions() -> Vec<String> {
    POSTGRES.iter().map(|one| format!("{:04}_{}", one.version, one.name)).collect()
}

/// What the command line says about a version in JSON.
fn version(index: usize, applied: bool) -> Value {
    json!({"version": POSTGRES[index].version, "name": POSTGRES[index].name, "applied": applied})
}

fn each_version(applied: bool) -> Value {
    (0..POSTGRES.len()).map(|index| version(index, applied)).collect()
}

on_each_database! {
    fn up_applies_once_and_down_takes_back(db) {
        let applied: String = versions().iter().map(|version| format!("applied {version}\n")).collect();
        assert_eq!(db.run(&["migrate"]).succeeded().stdout, applied);
        assert_eq!(db.run(&["migrate", "up"]).succeeded().stdout, "the schema is up to date\n");
        for version in versions().iter().rev() {
            let reverted = format!("reverted {version}");
            assert_eq!(db.run(&["migrate", "down"]).succeeded().stdout.lines().last(), Some(&*reverted));
            db.run(&["stats"]).exited(4);
        }
        assert_eq!(db.run(&["migrate", "down"]).succeeded().stdout, "nothing to revert\n");
        db.run(&["stats"]).exited(4);
    }

    fn down_spares_jobs_that_wait_and_workers_that_live(db) {
        let db = db.migrated();
        db.enqueue(Greet { name: "x".to_owned() });
        let refused = db.run(&["migrate", "down"]).exited(1);
        refused.complained(&["1 job (waiting or running) and 0 live workers", "--delete-jobs"]);
        db.run(&["stats"]).succeeded();
        for version in versions().iter().rev() {
            let reverted = format!("reverted {version}");
            assert!(db.run(&["migrate", "down", "--delete-jobs"]).succeeded().stdout.contains(&reverted));
        }
    }

    fn json_output_names_versions(db) {
        assert_eq!(db.json(&["migrate", "status"]), each_version(false));
        assert_eq!(db.json(&["migrate", "up"]), each_version(true));
        assert_eq!(db.json(&["migrate", "up"]), json!([]));
        assert_eq!(db.json(&["migrate", "status"]), each_version(true));
        for index in (0..POSTGRES.len()).rev() {
            assert_eq!(db.json(&["migrate", "down"]), json!([version(index, false)]));
        }
    }

    fn status_shows_what_is_missing_and_what_is_newer(db) {
        let table = db.run(&["migrate", "status"]).succeeded().stdout;
        assert!(table.lines().any(|line| line.split_whitespace().take(3).eq(["0001", "jobs", "missing;"])), "{table}");
        let db = db.migrated();
        db.execute("insert into jobs.schema_migration (version, name) values (99, 'future')");
        let table = db.run(&["migrate", "status"]).succeeded().stdout;
        assert!(table.contains("applied") && table.contains("0099  (unknown: made by a newer program)"), "{table}");
    }
}

#[test]
fn a_schema_that_is_taken_is_not_migrated() {
    let db = Db::postgres();
    db.execute("create schema jobs; create table jobs.posting (id bigint)");
    db.run(&["migrate"]).exited(1).complained(&["already has a schema `jobs`", "alter schema jobs rename to"]);
    db.execute("alter schema jobs rename to careers");
    db.run(&["migrate"]).succeeded();
}

#[test]
fn a_role_that_may_not_create_the_schema_is_told_what_it_lacks() {
    let db = Db::postgres();
    // A role that each server has.
    let url = format!("{}{}options=-c%20role%3Dpg_monitor", db.url, if db.url.contains('?') { '&' } else { '?' });
    let refused = worker("fixture-worker").args(["migrate"]).env("DATABASE_URL", url).run().exited(1);
    let (_, name) = db.server();
    let grant = format!("grant create on database {name} to pg_monitor");
    refused.complained(&["the role pg_monitor may not create the schema `jobs`", &grant]);
}

#[test]
fn sql_needs_no_database_when_the_url_names_one() {
    let sql = |url: &str| worker("fixture-worker").args(["migrate", "sql"]).env("DATABASE_URL", url).run().succeeded();
    assert!(sql("postgres://me@127.0.0.1:1/app").stdout.contains("create schema jobs;"));
    assert!(sql("sqlite:///no/such/directory/jobs.db").stdout.contains("create table jobs_job ("));
}

#[test]
fn sql_of_the_other_backend_is_asked_for_by_name() {
    let run = worker("fixture-worker").args(["migrate", "sql", "--backend", "postgres", "--json"]).run().succeeded();
    let versions = run.json();
    assert_eq!(versions[0]["version"], 1);
    assert!(versions[0]["up"].as_str().unwrap().contains("create schema jobs;"));
    assert!(versions[0]["down"].as_str().unwrap().contains("drop schema jobs"));
}

#[test]
fn the_printed_sql_makes_a_schema_the_worker_accepts() {
    let db = Db::postgres();
    let sql = db.run(&["migrate", "sql"]).succeeded().stdout;
    db.execute(&sql);
    db.run(&["stats"]).succeeded();
    assert_eq!(db.json(&["migrate", "status"])[0]["applied"], true);
}
