//! The jobs' migrations together with the shop's: the repository has the files that the worker writes, and Diesel
//! applies all of them as one history.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use axum_app::MIGRATIONS;
use diesel_async::AsyncMigrationHarness;
use diesel_migrations::{FileBasedMigrations, MigrationHarness as _};

use crate::support::{Db, Process};

const COPY: &str =
    "run: cargo run -p axum-app --bin worker -- migrations copy examples/axum-app/migrations --backend postgres";
const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");

#[tokio::test]
async fn the_copies_checked_in_are_what_the_command_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["migrations", "copy", path, "--backend", "postgres"];
    Process::start(env!("CARGO_BIN_EXE_worker"), "", &args, &[]).succeeded().await;

    let (written, checked_in) = (files_of_jobs(dir.path()), files_of_jobs(Path::new(CHECKED_IN)));
    assert!(!written.is_empty());
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&checked_in), names(&written), "{COPY}");
    // `assert_eq` would print both texts completely.
    let differ: Vec<_> =
        written.iter().filter(|(file, text)| checked_in[*file] != **text).map(|(file, _)| file).collect();
    assert!(differ.is_empty(), "{differ:?} differ; remove the folder, and {COPY}");
}

/// Returns the texts in the folders of the jobs' migrations.
fn files_of_jobs(dir: &Path) -> BTreeMap<String, String> {
    let folders = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    folders
        .filter(|folder| folder.contains("_jobs_"))
        .flat_map(|folder| ["up.sql", "down.sql"].map(|file| format!("{folder}/{file}")))
        .map(|file| (file.clone(), fs::read_to_string(dir.join(file)).unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn diesel_reverts_and_repeats_them_all() {
    let db = Db::migrated().await;
    let mut harness = AsyncMigrationHarness::new(db.conn().await);
    let applied = harness.applied_migrations().unwrap();
    assert_eq!(harness.revert_all_migrations(MIGRATIONS).unwrap(), applied);
    let left = "select count(*) from pg_tables where schemaname in ('jobs', 'public') and tablename !~ '^__diesel'";
    assert_eq!(db.number(left).await, 0);
    assert_eq!(harness.run_pending_migrations(MIGRATIONS).unwrap().len(), applied.len());
}

/// `diesel migration redo` and `revert` affect the application's newest migration, even if the jobs' migrations were
/// applied last.
#[tokio::test(flavor = "multi_thread")]
async fn in_an_older_application_the_last_migration_stays_its_own() {
    let (db, dir) = (Db::empty().await, tempfile::tempdir().unwrap());
    let write = |folder: &str, up: &str, down: &str| {
        let folder = dir.path().join(folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("up.sql"), up).unwrap();
        fs::write(folder.join("down.sql"), down).unwrap();
    };
    // A migration as `diesel setup` writes it, and one from the first year of Diesel.
    write("00000000000000_diesel_initial_setup", "select 1", "select 1");
    write("2015-12-01-120000_letters", "create table letters (id bigint)", "drop table letters");
    let run = async || {
        let found = FileBasedMigrations::from_path(dir.path()).unwrap();
        let mut harness = AsyncMigrationHarness::new(db.conn().await);
        let names = harness.run_pending_migrations(found).unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(run().await, ["00000000000000", "20151201120000"]);

    let args = ["migrations", "copy", dir.path().to_str().unwrap(), "--backend", "postgres"];
    Process::start(env!("CARGO_BIN_EXE_worker"), "", &args, &[]).succeeded().await;
    assert_eq!(run().await, ["00000000000001"]);
    db.run("select jobs.enqueue('waits')").await;
    let found = FileBasedMigrations::from_path(dir.path()).unwrap();
    let mut harness = AsyncMigrationHarness::new(db.conn().await);
    assert_eq!(harness.revert_last_migration(found.clone()).unwrap().to_string(), "20151201120000");
    assert_eq!(db.number("select count(*) as number from jobs.ready").await, 1);
    assert_eq!(run().await, ["20151201120000"]);
    // `redo --all` also reverts the jobs' migrations, which refuse it.
    let refusal = harness.revert_all_migrations(found).unwrap_err().to_string();
    assert!(refusal.contains("1 waiting and 0 running"), "{refusal}");
    assert_eq!(db.number("select count(*) as number from jobs.ready").await, 1);

    // In a new application they are applied before all migrations that use them.
    let db = Db::empty().await;
    write("2026-01-01-000000_uses_them", "create view waiting as select id from jobs.ready", "drop view waiting");
    let mut harness = AsyncMigrationHarness::new(db.conn().await);
    let found = FileBasedMigrations::from_path(dir.path()).unwrap();
    let names: Vec<_> = harness.run_pending_migrations(found).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["00000000000000", "00000000000001", "20151201120000", "20260101000000"]);
}

#[tokio::test]
async fn the_worker_finds_nothing_to_complain_about() {
    let db = Db::migrated().await;
    Process::start(env!("CARGO_BIN_EXE_worker"), &db.url, &["check"], &[]).succeeded().await;
}
