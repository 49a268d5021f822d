//! `enqueue` on every type of connection that an application may have: inside a transaction and outside, committed and
//! rolled back.

use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel::result::Error as DieselError;
use diesel::{Connection as _, PgConnection, SqliteConnection};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool as Deadpool;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Enqueue as _, EnqueueError, Job as _, JobState, job};
use support::Db;

#[job(queue = "mail", max_attempts = 7)]
async fn note(text: String) {
    drop(text);
}

fn note_of(text: &str) -> Note {
    Note { text: text.to_owned() }
}

/// Returns a job that is refused before anything is sent.
fn invalid() -> diesel_jobs::JobBuilder {
    note_of("never").max_attempts(0)
}

/// Checks that three jobs were enqueued: the plain one, the committed one, and the one after the invalid one.
async fn three_are_there(db: &Db, conn: &str) {
    let texts = db.conn().await.texts("select cast(args as text) as text from jobs.job order by id").await;
    assert_eq!(texts, [r#"{"text":"plain"}"#, r#"{"text":"kept"}"#, r#"{"text":"after"}"#], "through {conn}");
    let table = if db.is_postgres() { "jobs.ready" } else { "jobs.job" };
    db.execute(&format!("delete from {table}")).await;
}

/// The steps on a connection with async methods.
macro_rules! asynchronously {
    ($db:ident, $conn:ident, $name:literal) => {{
        let id = note_of("plain").enqueue(&mut $conn).await.unwrap();
        let job = $db.record(*id).await;
        assert_eq!((job.state, &*job.queue, job.max_attempts), (JobState::Available, "mail", 7));

        let kept: Result<_, DieselError> =
            $conn.transaction(async |conn| Ok(note_of("kept").enqueue(conn).await?)).await;
        kept.unwrap();

        let rolled_back: Result<(), DieselError> = $conn
            .transaction(async |conn| {
                note_of("gone").enqueue(conn).await?;
                diesel_jobs::enqueue_all(conn, (0..3).map(|_| note_of("gone too"))).await?;
                Err(DieselError::RollbackTransaction)
            })
            .await;
        assert!(matches!(rolled_back, Err(DieselError::RollbackTransaction)));

        let beside: Result<(), DieselError> = $conn
            .transaction(async |conn| {
                let refused = invalid().enqueue(conn).await.unwrap_err();
                assert!(refused.is_invalid_job(), "{refused}");
                note_of("after").enqueue(conn).await?;
                Ok(())
            })
            .await;
        beside.unwrap();
        three_are_there(&$db, $name).await;
    }};
}

/// The same steps on a connection with blocking methods.
macro_rules! at_once {
    ($db:ident, $conn:ident, $name:literal) => {{
        let id = note_of("plain").enqueue(&mut $conn).unwrap();
        let job = $db.record(*id).await;
        assert_eq!((job.state, &*job.queue, job.max_attempts), (JobState::Available, "mail", 7));

        let kept: Result<_, DieselError> = $conn.transaction(|conn| Ok(note_of("kept").enqueue(conn)?));
        kept.unwrap();

        let rolled_back: Result<(), DieselError> = $conn.transaction(|conn| {
            note_of("gone").enqueue(conn)?;
            diesel_jobs::enqueue_all(conn, (0..3).map(|_| note_of("gone too")))?;
            Err(DieselError::RollbackTransaction)
        });
        assert!(matches!(rolled_back, Err(DieselError::RollbackTransaction)));

        let beside: Result<(), DieselError> = $conn.transaction(|conn| {
            let refused = invalid().enqueue(conn).unwrap_err();
            assert!(refused.is_invalid_job(), "{refused}");
            note_of("after").enqueue(conn)?;
            Ok(())
        });
        beside.unwrap();
        three_are_there(&$db, $name).await;
    }};
}

async fn every_connection_to_postgres(db: Db) {
    let mut conn = AsyncPgConnection::establish(db.url()).await.unwrap();
    asynchronously!(db, conn, "AsyncPgConnection");

    let pool = Deadpool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(db.url())).build().unwrap();
    let mut conn = pool.get().await.unwrap();
    asynchronously!(db, conn, "a deadpool object");

    let mut conn = PgConnection::establish(db.url()).unwrap();
    at_once!(db, conn, "PgConnection");

    let pool = R2d2Pool::builder().max_size(1).build(ConnectionManager::<PgConnection>::new(db.url())).unwrap();
    let mut conn = pool.get().unwrap();
    at_once!(db, conn, "an r2d2 object");
}

async fn every_connection_to_sqlite(db: Db) {
    let path = db.url().strip_prefix("sqlite://").unwrap();
    let mut conn = SqliteConnection::establish(path).unwrap();
    at_once!(db, conn, "SqliteConnection");

    let pool = R2d2Pool::builder().max_size(1).build(ConnectionManager::<SqliteConnection>::new(path)).unwrap();
    let mut conn = pool.get().unwrap();
    at_once!(db, conn, "an r2d2 object");
    drop(conn);

    let mut conn = SyncConnectionWrapper::<SqliteConnection>::establish(path).await.unwrap();
    asynchronously!(db, conn, "SyncConnectionWrapper");
}

async fn a_database_without_our_tables_says_what_to_run(db: Db) {
    drop(db);
    let db = Db::empty_postgres().await;
    let mut conn = AsyncPgConnection::establish(db.url()).await.unwrap();
    let error = note_of("x").enqueue(&mut conn).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Schema(_)), "{error:?}");
    assert!(error.to_string().contains("worker migrate"), "{error}");
}

support::on_postgres! { every_connection_to_postgres, a_database_without_our_tables_says_what_to_run }
support::on_sqlite! { every_connection_to_sqlite }
