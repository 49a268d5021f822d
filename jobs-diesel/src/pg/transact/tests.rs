//! Tests the end of a transaction in both forms: with prepared statements, and with the full text if sessions are not
//! kept.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{
    Body, Claim, Connections as _, Registration as _, Storage as _, Transacted, Transaction, Wanted, WorkerInfo,
};
use diesel_jobs_core::{JobError, Keep, Lease, NewJob, Transition, WorkerId};
use tokio_util::sync::CancellationToken;

use crate::pg::PgStorage;
use crate::pg::tests::{database, url};

const KEEPS: [Keep; 3] = [Keep::Forever, Keep::For(Duration::from_secs(60)), Keep::Nothing];

/// Runs a handler that stores the id of its server process.
async fn transact(storage: &PgStorage, lease: Lease, keep: Keep) -> Transacted {
    let body = Body::Async(Arc::new(move |conn| {
        Box::pin(async move {
            let conn: &mut AsyncPgConnection = conn.downcast_mut().unwrap();
            let write = conn.batch_execute("insert into effect select pg_backend_pid()");
            write.await.map(|()| vec![Transition::Complete(keep)]).map_err(JobError::new)
        })
    }));
    let (connection, abort) = (TypeId::of::<AsyncPgConnection>(), CancellationToken::new());
    storage.transact(Transaction { connection, leases: [lease].into(), body, abort }).await
}

async fn claimed(storage: &PgStorage, conn: &mut AsyncPgConnection) -> Lease {
    crate::enqueue_all(conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    let lease = Duration::from_secs(3600);
    let info = WorkerInfo::new(WorkerId::generate(), lease);
    storage.register(&info).await.unwrap();
    let claim = Claim::new(info.id, vec![Wanted::new("default", 1)], ["k".to_owned()]);
    storage.claim(&claim).await.unwrap().remove(0).lease
}

async fn number(conn: &mut AsyncPgConnection, sql: &str) -> i64 {
    diesel::select(diesel::dsl::sql::<BigInt>(&format!("({sql})"))).get_result(conn).await.unwrap()
}

/// Runs the test on a storage whose sessions are kept, and then again as if they were not kept.
async fn in_both_forms(setup: &str, test: impl AsyncFn(&PgStorage, &mut AsyncPgConnection)) {
    let (mut admin, name, storage) = database().await;
    let mut conn = storage.connector.connect().await.unwrap();
    conn.batch_execute(setup).await.unwrap();
    storage.connector.sessions().learn(&storage).await.unwrap();
    assert!(storage.connector.sessions().are_kept());
    test(&storage, &mut conn).await;
    storage.connector.sessions().are_not_kept();
    test(&storage, &mut conn).await;
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_commits_nothing_and_leaves_its_session_usable() {
    in_both_forms("create table effect (session bigint)", async |storage, conn| {
        for keep in KEEPS {
            let lease = claimed(storage, conn).await;
            let others = [
                Lease { number: lease.number + 1, ..lease },
                Lease { worker: WorkerId::generate(), ..lease },
                Lease { job: diesel_jobs_core::JobId(lease.job.0 + 1), ..lease },
            ];
            for other in others {
                let ended = transact(storage, other, keep).await;
                assert!(matches!(ended, Transacted::LeaseLost), "{other}, {keep:?}: {ended:?}");
                assert_eq!(number(conn, "select count(*) from effect").await, 0);
                assert_eq!(number(conn, "select count(*) from jobs.running").await, 1);
            }
            for round in [Some(lease), None] {
                let lease = match round {
                    Some(lease) => lease,
                    None => claimed(storage, conn).await,
                };
                let ended = transact(storage, lease, keep).await;
                assert!(matches!(ended, Transacted::Committed(_)), "{keep:?}: {ended:?}");
            }
            assert_eq!(number(conn, "select count(*) from jobs.running").await, 0);
            assert_eq!(number(conn, "select count(*) from effect").await, 2);
            assert_eq!(number(conn, "select count(distinct session) from effect").await, 1, "one session for all");
            conn.batch_execute("truncate effect").await.unwrap();
        }
        let history = "select count(*) * 10 + count(expires_at) from jobs.finished where state = 1";
        assert_eq!(number(conn, history).await, 42, "two for ever, two for a time, none of those that are not kept");
        conn.batch_execute("truncate jobs.finished").await.unwrap();
    })
    .await;
}

/// The statement is planned once, when the table looks empty, and it runs when the table is no longer empty.
#[tokio::test]
async fn the_finish_reads_no_whole_table_and_the_commit_is_the_applications() {
    // The deferred trigger runs at the commit. It stores the sequential scans of this transaction and the value of
    // `enable_seqscan`.
    let setup = "create table effect (session bigint); create table seen (scans bigint, seqscan text);
        create function see() returns trigger language plpgsql as $$ begin
            insert into seen select seq_scan, current_setting('enable_seqscan') from pg_stat_xact_all_tables
                where relid = 'jobs.running'::regclass;
            return null;
        end $$;
        create constraint trigger see after insert on jobs.finished deferrable initially deferred
            for each row execute function see()";
    in_both_forms(setup, async |storage, conn| {
        conn.batch_execute("vacuum analyze jobs.running").await.unwrap();
        for _ in 0..8 {
            let lease = claimed(storage, conn).await;
            let ended = transact(storage, lease, Keep::Forever).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{ended:?}");
        }
        let seen = diesel::dsl::sql::<(BigInt, BigInt, Text)>("count(*), sum(scans)::bigint, min(seqscan) from seen");
        let seen: (i64, i64, String) = diesel::select(seen).get_result(conn).await.unwrap();
        assert_eq!(seen, (8, 0, "on".to_owned()));
        conn.batch_execute("truncate seen").await.unwrap();
    })
    .await;
}

/// The server ends sessions that are idle for 100 ms, and this program is slow at the beginning of each job. So a
/// connection is closed while it is set up, or before its transaction begins. Between a job's first three pauses there
/// are as many milliseconds as the number of the job. Between later pauses there is a second, because a busy machine
/// may need that.
#[tokio::test]
async fn connections_that_are_closed_at_once_are_opened_again() {
    let (mut admin, name, storage) = database().await;
    let mut conn = storage.connector.connect().await.unwrap();
    conn.batch_execute("create table effect (session bigint)").await.unwrap();
    admin.batch_execute(&format!("alter database {name} set idle_session_timeout = 100")).await.unwrap();
    let storage = PgStorage::new(&url(&name), 16).unwrap();
    for few in 1..=15 {
        let lease = claimed(&storage, &mut conn).await;
        storage.handlers.retain(|_, _| false);
        let slow = tokio::spawn(async move {
            for between in [few; 3].into_iter().chain(std::iter::repeat(1000)) {
                std::thread::sleep(Duration::from_millis(150));
                tokio::time::sleep(Duration::from_millis(between)).await;
            }
        });
        let ended = transact(&storage, lease, Keep::Forever).await;
        slow.abort();
        assert!(matches!(ended, Transacted::Committed(_)), "{ended:?}");
    }
    assert_eq!(number(&mut conn, "select count(*) from effect").await, 15);
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
