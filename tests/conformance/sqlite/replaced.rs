//! A file that is deleted, moved away or replaced while a process has it open.

use std::fs;

use super::Sqlite;
use crate::bench::*;
use crate::fixture::{Fixture, Port as _, run};

/// Renames the file, and the two files that SQLite keeps with it.
fn move_all(from: &str, to: &str) {
    for end in ["", "-wal", "-shm"] {
        let _ = fs::rename(format!("{from}{end}"), format!("{to}{end}"));
    }
}

#[test]
fn a_replaced_file_is_opened_again_and_a_missing_file_is_an_error() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let (db, file) = (f.database(), f.url().trim_start_matches("sqlite://").to_owned());
        let first = worker(db).await;
        let mut heartbeat = db.storage.open_heartbeat(first).await.unwrap();
        enqueue_all(&f, vec![job(); 3]).await;
        assert_eq!(claim(db, first, 10).await.len(), 3);

        let aside = format!("{file}.aside");
        move_all(&file, &aside);
        let error = heartbeat.beat(false, HOUR).await.unwrap_err().to_string();
        assert!(error.contains("deleted or moved away") && error.contains(&file), "{error}");
        assert!(db.storage.leases(first, None).await.is_err());
        assert!(!fs::exists(&file).unwrap(), "no empty file was created in its place");

        let other = f.again().await;
        other.migrator.up().await.unwrap();
        enqueue_all(&f, vec![job(); 2]).await;
        assert!(heartbeat.beat(false, HOUR).await.unwrap().is_none(), "the other file knows no such worker");
        let second = worker(db).await;
        assert_eq!(claim(db, second, 10).await.len(), 2);

        drop(other);
        move_all(&file, &format!("{file}.second"));
        move_all(&aside, &file);
        assert!(heartbeat.beat(false, HOUR).await.unwrap().is_some());
        assert_eq!(db.storage.leases(first, None).await.unwrap().valid.len(), 3);
    });
}
