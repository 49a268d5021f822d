//! Tests the end of a transaction in both forms: with prepared statements, and with the full text if sessions are not
//! kept.

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::{Body, Claim, Storage as _, Transacted, Transaction, Wanted, WorkerInfo};
use diesel_jobs_core::{ClaimedJob, JobContext, JobError, Keep, Lease, NewJob, Transition, WorkerId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::Rollback;
use crate::pg::PgStorage;
use crate::pg::tests::{database, url};
use crate::stopwatch::Stopwatch;

const KEEPS: [Keep; 3] = [Keep::Forever, Keep::For(Duration::from_secs(60)), Keep::Nothing];

/// Runs a handler that stores the id of its server process.
async fn transact(storage: &PgStorage, job: &ClaimedJob, keep: Keep) -> Transacted {
    let body = Body::Async(Arc::new(move |conn| {
        Box::pin(async move {
            let conn: &mut AsyncPgConnection = conn.downcast_mut().unwrap();
            let write = conn.batch_execute("insert into effect select pg_backend_pid()");
            write.await.map(|()| vec![Transition::Complete(keep)]).map_err(JobError::new)
        })
    }));
    let (connection, abort) = (TypeId::of::<AsyncPgConnection>(), CancellationToken::new());
    let jobs = [JobContext::new(job.clone(), CancellationToken::new(), Arc::default())].into();
    storage.transact(Transaction { connection, jobs, body, abort }).await
}

async fn claimed(storage: &PgStorage, conn: &mut AsyncPgConnection) -> ClaimedJob {
    crate::enqueue_all(conn, vec![NewJob::raw("k", "{}")]).await.unwrap();
    let lease = Duration::from_secs(3600);
    let info = WorkerInfo::new(WorkerId::generate(), lease);
    storage.register(&info).await.unwrap();
    let claim = Claim::new(info.id, vec![Wanted::new("default", 1)], ["k".to_owned()]);
    storage.claim(&claim).await.unwrap().remove(0)
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
            let job = claimed(storage, conn).await;
            let lease = job.lease;
            let others = [
                Lease { number: lease.number + 1, ..lease },
                Lease { worker: WorkerId::generate(), ..lease },
                Lease { job: diesel_jobs_core::JobId(lease.job.0 + 1), ..lease },
            ];
            for other in others {
                let ended = transact(storage, &ClaimedJob { lease: other, ..job.clone() }, keep).await;
                assert!(matches!(ended, Transacted::LeaseLost), "{other}, {keep:?}: {ended:?}");
                assert_eq!(number(conn, "select count(*) from effect").await, 0);
                assert_eq!(number(conn, "select count(*) from jobs.running").await, 1);
            }
            for round in [Some(job), None] {
                let job = match round {
                    Some(job) => job,
                    None => claimed(storage, conn).await,
                };
                let ended = transact(storage, &job, keep).await;
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
            let job = claimed(storage, conn).await;
            let ended = transact(storage, &job, Keep::Forever).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{ended:?}");
        }
        let seen = diesel::dsl::sql::<(BigInt, BigInt, Text)>("count(*), sum(scans)::bigint, min(seqscan) from seen");
        let seen: (i64, i64, String) = diesel::select(seen).get_result(conn).await.unwrap();
        assert_eq!(seen, (8, 0, "on".to_owned()));
        conn.batch_execute("truncate seen").await.unwrap();
    })
    .await;
}

/// Which of the connections through a [`proxy`] are closed, and when.
#[derive(Default)]
struct Closing {
    /// How many of the next connections.
    connections: usize,
    /// After how many answers of the server, unless a transaction has begun.
    after: usize,
    /// Only if there is a next request, and instead of its answer.
    with_next_request: bool,
    /// How many were closed.
    closed: usize,
}

/// Passes everything on to the server, but closes some connections as a server does after its `idle_session_timeout`.
/// Returns its port.
async fn proxy(server: String, closing: Arc<Mutex<Closing>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass_on(client, server, closing.clone()));
        }
    });
    port
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream, closing: Arc<Mutex<Closing>>) {
    let (after, with_next_request) = {
        let mut closing = closing.lock().unwrap();
        let closes = closing.connections > 0;
        closing.connections -= usize::from(closes);
        (if closes { closing.after } else { usize::MAX }, closing.with_next_request)
    };
    let length = client.read_u32().await.unwrap();
    let mut start = vec![0; length as usize - 4];
    client.read_exact(&mut start).await.unwrap();
    server.write_all(&[&length.to_be_bytes(), start.as_slice()].concat()).await.unwrap();

    let begun = AtomicBool::new(false);
    let ((mut of_client, mut to_client), (mut of_server, mut to_server)) = (client.split(), server.split());
    let up = async {
        while let Some(request) = message(&mut of_client).await {
            if request.windows(5).any(|word| word == b"BEGIN") {
                begun.store(true, Ordering::SeqCst);
            }
            to_server.write_all(&request).await.unwrap();
        }
    };
    let down = async {
        let (mut answers, mut is_closing) = (0, false);
        while let Some(mut answer) = message(&mut of_server).await {
            if is_closing {
                answer.clear();
            } else if answer[0] == b'Z' {
                answers += 1;
                is_closing = answers == after && !AtomicBool::load(&begun, Ordering::SeqCst);
            }
            let closes = is_closing && (answer.is_empty() || !with_next_request);
            if closes {
                let text = b"SFATAL\0VFATAL\0C57P05\0Mterminating connection due to idle-session timeout\0\0";
                let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
                answer.extend([b"E", length.as_slice(), text].concat());
            }
            to_client.write_all(&answer).await.unwrap();
            if closes {
                closing.lock().unwrap().closed += 1;
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// One message, or `None` at the end of the connection.
async fn message(from: &mut ReadHalf<'_>) -> Option<Vec<u8>> {
    let kind = from.read_u8().await.ok()?;
    let length = from.read_u32().await.ok()?;
    let mut message = [[kind].as_slice(), &length.to_be_bytes()].concat();
    message.resize(length as usize + 1, 0);
    from.read_exact(&mut message[5..]).await.ok()?;
    Some(message)
}

/// Connections are closed at each point of their set-up, and before or at the beginning of their transaction.
#[tokio::test]
async fn connections_that_are_closed_at_once_are_opened_again() {
    let (mut admin, name, storage) = database().await;
    let mut conn = storage.connector.connect().await.unwrap();
    conn.batch_execute("create table effect (session bigint)").await.unwrap();
    let closing = Arc::new(Mutex::new(Closing::default()));
    let direct = url(&name);
    let (before, rest) = direct.split_once('@').unwrap();
    let port = proxy(rest.split_once('/').unwrap().0.to_owned(), closing.clone()).await;
    let url = format!("{before}@127.0.0.1:{port}/{name}?sslmode=disable");
    let storage = PgStorage::new(&url, 1, Stopwatch::StandsStill).unwrap();
    storage.connector.sessions().learn(&storage).await.unwrap();
    let mut committed = 0;
    for with_next_request in [false, true] {
        for after in 1.. {
            let job = claimed(&storage, &mut conn).await;
            storage.handlers.retain(|_, _| false);
            *closing.lock().unwrap() = Closing { connections: 3, after, with_next_request, closed: 0 };
            let ended = transact(&storage, &job, Keep::Forever).await;
            assert!(matches!(ended, Transacted::Committed(_)), "after {after} answers: {ended:?}");
            committed += 1;
            let closed = closing.lock().unwrap().closed;
            if closed == 0 {
                assert!(after > 2, "there are answers to the start and to the set-up");
                break;
            }
            assert_eq!(closed, 3, "after {after} answers");
        }
    }
    assert_eq!(number(&mut conn, "select count(*) from effect").await, committed);
    drop((conn, storage));
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}

#[test]
fn a_closed_connection_is_an_interruption_unless_the_handler_is_the_reason() {
    let closed =
        |text: &str| DieselError::DatabaseError(DatabaseErrorKind::ClosedConnection, Box::new(text.to_owned()));
    let handler = |text: &str| Rollback::Handler(JobError::new(closed(text)));
    let interrupted = |rollback: Rollback| match rollback.after(false, true) {
        Rollback::Interrupted(interruption) => Some((interruption.may_have_committed, interruption.by_administrator)),
        _ => None,
    };
    assert_eq!(interrupted(handler("connection closed")), Some((false, false)));
    assert_eq!(interrupted(Rollback::Database(closed("connection closed"))), Some((true, false)));
    for administrator in [
        "terminating connection due to administrator command",
        "Verbindung wird abgebrochen aufgrund von Anweisung des Administrators",
        "закрытие подключения по команде администратора",
        "由于管理员命令，正在终止连接",
        "因管理員命令，正在中斷連線",
        "memutus koneksi karena perintah administrator",
        "zakończono połączenie na skutek polecenia administratora",
        "terminando a conexão devido a um comando do administrador",
        "yönetici talimatı doğrultusunda bağlantı kesildi",
    ] {
        assert_eq!(interrupted(handler(administrator)), Some((false, true)), "{administrator}");
        let ended = Rollback::Database(closed(&format!("closed: {administrator}")));
        assert_eq!(interrupted(ended), Some((true, true)), "{administrator}");
    }
    for timeout in [
        "terminating connection due to idle-in-transaction timeout",
        "terminating connection due to transaction timeout",
        "Verbindung wird abgebrochen wegen Zeitüberschreitung in inaktiver Transaktion",
        "zakończono połączenie na skutek przekroczenia czasu bezczynności podczas transakcji",
        "terminando a conexão devido a tempo limite de inatividade esgotado na transação",
        "由于事务内空闲超时，正在终止连接",
        "由於交易中閒置逾時，正在終止連線",
        "Verbindung wird abgebrochen wegen Zeitüberschreitung in Transaktion",
        "terminando la conexión debido a que se agotó el tiempo de espera para transacciones",
        "トランザクションタイムアウトのため接続を終了します",
        "მიერთების შეწყვეტა ტრანზაქციის მოლოდინის ვადის ამოწურვის გამო",
        "트랜잭션 시간(transaction_timeout) 초과로 연결을 끝냅니다",
        "закрытие подключения из-за тайм-аута транзакции",
        "terminerar anslutning på grund av transaktionstimeout",
        "переривання з'єднання через тайм-аут транзакції",
        "由于事务超时，正在终止连接",
        "由於交易逾時，正在終止連線",
    ] {
        assert_eq!(interrupted(handler(timeout)), None, "{timeout}");
        assert_eq!(interrupted(Rollback::Database(closed(&format!("closed: {timeout}")))), None, "{timeout}");
    }
    let decided = JobError::new(closed("connection closed")).fatal();
    assert_eq!(interrupted(Rollback::Handler(decided)), None, "the handler has decided what follows");
    let refused = Rollback::Database(closed("no")).after(true, false);
    assert!(matches!(refused, Rollback::Refused(_)), "the session still works");
}
