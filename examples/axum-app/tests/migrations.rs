//! The jobs' migrations together with the shop's: the repository has the files that the worker writes, and Diesel
//! applies all of them as one history.

use std::fs;

use axum_app::MIGRATIONS;
use diesel_async::AsyncMigrationHarness;
use diesel_jobs::migrations::POSTGRES;
use diesel_migrations::{FileBasedMigrations, MigrationHarness as _};
use programs::{Process, assert_copies_are_current, findings};

use crate::database::Db;

const COPY: &str =
    "cargo run -p axum-app --bin worker -- migrations copy examples/axum-app/migrations --backend postgres";

#[tokio::test]
async fn the_copies_checked_in_are_what_the_command_writes() {
    assert_copies_are_current(env!("CARGO_BIN_EXE_worker"), "migrations", COPY).await;
}

#[tokio::test]
async fn the_program_applies_them_all() {
    let db = Db::empty().await;
    Process::start(env!("CARGO_BIN_EXE_migrate"), db.url(), &[], &[]).succeeded().await;
    assert_eq!(db.number("select count(*) from orders").await, 0);
    assert_eq!(db.number("select count(*) from jobs.job").await, 0);
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
    let jobs: Vec<String> = (1..=POSTGRES.len()).map(|version| format!("{version:014}")).collect();
    assert_eq!(run().await, jobs);
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
    assert_eq!(
        names,
        ["00000000000000".to_owned()]
            .into_iter()
            .chain(jobs)
            .chain(["20151201120000", "20260101000000"].map(str::to_owned))
            .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn the_doctor_finds_nothing_to_complain_about() {
    let db = Db::migrated().await;
    assert_eq!(findings(env!("CARGO_BIN_EXE_worker"), db.url()), [""; 0]);
}
