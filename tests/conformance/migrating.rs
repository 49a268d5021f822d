//! Migrations, and schemas of other versions.

use diesel_jobs_core::StorageError;
use diesel_jobs_storage::MigrateError;
use diesel_jobs_storage::migrations::LiveJobs;

use crate::bench::*;
use crate::fixture::Fixture;

const NONE: [i32; 0] = [];

fn versions(migrations: &[&diesel_jobs_storage::migrations::Migration]) -> Vec<i32> {
    migrations.iter().map(|migration| migration.version).collect()
}

pub(crate) async fn up_down_and_up_again<F: Fixture>(_: F) {
    let f = F::empty().await;
    let (db, migrator) = (f.database(), &f.database().migrator);
    let known: Vec<i32> = migrator.known().iter().map(|migration| migration.version).collect();
    assert_eq!(migrator.applied().await.unwrap(), NONE);
    for _ in 0..2 {
        assert_eq!(versions(&migrator.up().await.unwrap()), known);
        assert_eq!(migrator.applied().await.unwrap(), known);
        assert_eq!(versions(&migrator.up().await.unwrap()), NONE);
        db.storage.check_schema().await.unwrap();
        claimed(&f, worker(db).await, job()).await;
        for left in (0..known.len()).rev() {
            if left == 0 {
                // A job is running, and without its tables it would be deleted.
                let refusal = migrator.down(LiveJobs::Keep).await.unwrap_err().to_string();
                assert!(refusal.contains("would delete") && refusal.contains("--delete-jobs"), "{refusal}");
                assert_eq!(migrator.applied().await.unwrap(), known[..1]);
            }
            assert_eq!(migrator.down(LiveJobs::Delete).await.unwrap().unwrap().version, known[left]);
            assert_eq!(migrator.applied().await.unwrap(), known[..left]);
            assert!(db.storage.check_schema().await.is_err());
        }
        assert!(migrator.down(LiveJobs::Keep).await.unwrap().is_none());
    }
}

pub(crate) async fn a_missing_schema_is_named_with_what_to_run<F: Fixture>(_: F) {
    let f = F::empty().await;
    let error = f.database().storage.check_schema().await.unwrap_err();
    assert!(matches!(error, StorageError::Schema(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("missing") && text.contains("worker migrate") && text.lines().count() == 1, "{text}");
    let error = f.database().operator.stats().await.unwrap_err();
    assert!(matches!(error, StorageError::Schema(_)), "{error:?}");
}

pub(crate) async fn a_newer_schema_is_refused<F: Fixture>(f: F) {
    let migrator = &f.database().migrator;
    let newest = migrator.known().last().unwrap().version;
    let mut client = f.client().await;
    client
        .execute(&format!(
            "insert into {} (version, name) values ({}, 'tomorrow')",
            F::table("schema_migration"),
            newest + 1
        ))
        .await
        .unwrap();
    for error in [
        f.database().storage.check_schema().await.unwrap_err(),
        migrator.up().await.unwrap_err(),
        migrator.down(LiveJobs::Keep).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, StorageError::Schema(_)), "{error:?}");
        assert!(text.contains(&format!("version {}", newest + 1)) && text.contains("deploy"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    for (name, mut client) in f.clients().await {
        match client.migrate().await.unwrap_err() {
            MigrateError::Newer { found, known } => assert_eq!((found, known), (newest + 1, newest), "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
}

pub(crate) async fn tables_that_were_emptied_are_not_taken_for_those_of_others<F: Fixture>(f: F) {
    let table = F::table("schema_migration");
    f.client().await.execute(&format!("delete from {table}")).await.unwrap();
    let refused = f.database().migrator.up().await.unwrap_err().to_string();
    assert!(refused.contains(&format!("but `{table}`, which has their version, is empty")), "{refused}");
    for (name, mut client) in f.clients().await {
        let refused = client.migrate().await.unwrap_err();
        assert!(matches!(refused, MigrateError::Emptied { .. }), "{name}: {refused}");
    }
}

pub(crate) async fn a_newer_schema_that_serves_this_program_is_served<F: Fixture>(f: F) {
    let (db, migrator) = (f.database(), &f.database().migrator);
    let newest = migrator.known().last().unwrap().version;
    let mut client = f.client().await;
    let later = format!(
        "insert into {} (version, name, oldest_program) values ({}, 'tomorrow', {newest})",
        F::table("schema_migration"),
        newest + 1
    );
    client.execute(&later).await.unwrap();
    db.storage.check_schema().await.unwrap();
    assert_eq!(versions(&migrator.up().await.unwrap()), NONE);
    for (name, mut client) in f.clients().await {
        client.migrate().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    claimed(&f, worker(db).await, job()).await;
    // A program cannot revert a version that it does not have.
    let refusal = migrator.down(LiveJobs::Delete).await.unwrap_err().to_string();
    assert!(refusal.contains(&format!("version {}", newest + 1)), "{refusal}");
    let next = newest + 1;
    let further = format!("update {} set oldest_program = {next} where version = {next}", F::table("schema_migration"));
    client.execute(&further).await.unwrap();
    db.storage.check_schema().await.unwrap_err();
}

pub(crate) async fn concurrent_migrators_apply_each_version_once<F: Fixture>(_: F) {
    let f = F::empty().await;
    let mut migrators = Vec::new();
    for _ in 0..6 {
        let db = f.again().await;
        migrators.push(tokio::spawn(async move { versions(&db.migrator.up().await.unwrap()) }));
    }
    let mut applied = Vec::new();
    for migrator in migrators {
        applied.extend(migrator.await.unwrap());
    }
    assert_eq!(applied, f.database().migrator.applied().await.unwrap());
    f.database().storage.check_schema().await.unwrap();
}

pub(crate) async fn every_kind_of_connection_migrates<F: Fixture>(_: F) {
    let f = F::empty().await;
    for (name, mut client) in f.clients().await {
        // Inside a transaction of the application, the migration is rolled back with it.
        client.begin().await;
        client.migrate().await.unwrap();
        client.rollback().await;
        assert_eq!(f.database().migrator.applied().await.unwrap(), NONE, "{name}");
        client.migrate().await.unwrap();
        client.migrate().await.unwrap();
        f.database().storage.check_schema().await.unwrap();
        client.enqueue(job()).await.unwrap();
        while f.database().migrator.down(LiveJobs::Delete).await.unwrap().is_some() {}
    }
}
