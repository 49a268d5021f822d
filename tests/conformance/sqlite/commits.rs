//! An enqueue outside of a transaction of the application is a transaction of its own. It must commit as any other
//! transaction does.

use diesel_jobs_core::NewJob;

use super::Sqlite;
use crate::fixture::{Fixture, run};

#[test]
fn an_enqueue_whose_commit_fails_is_an_error() {
    run::<Sqlite, _>(async |f: Sqlite| {
        let mut setup = f.client().await;
        // A deferred constraint is checked by the commit.
        for statement in [
            "create table parent (id integer primary key)",
            "create table child (parent integer references parent deferrable initially deferred)",
            "create trigger orphan after insert on jobs_job begin insert into child values (1); end",
        ] {
            setup.execute(statement).await.unwrap();
        }
        for (name, mut client) in f.clients().await {
            client.execute("pragma foreign_keys = on").await.unwrap();
            let enqueued = client.enqueue(NewJob::raw("a", "{}")).await;
            assert!(enqueued.is_err(), "{name}: {enqueued:?}");
            assert_eq!(client.number("select count(*) as number from jobs_job").await, 0, "{name}");
        }
    });
}

/// SQLite moves the write-ahead log into the file when a commit finds a thousand pages in the log.
#[test]
fn enqueues_one_by_one_do_not_let_the_log_grow() {
    run::<Sqlite, _>(async |f: Sqlite| {
        for (name, mut client) in f.clients().await {
            client.execute("pragma synchronous = off").await.unwrap();
            for _ in 0..1500 {
                client.enqueue(NewJob::raw("a", "{}")).await.unwrap();
            }
            let log = std::fs::metadata(f.directory().join("jobs.db-wal")).unwrap().len();
            assert!(log < 1200 * 4096, "{name}: {log} bytes");
        }
    });
}
