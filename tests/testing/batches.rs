//! A handler that takes batches is called with one job at a time, on each type of connection.

use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatch, HandleBatchIn, HandleBlockingBatchIn};
use diesel_jobs::prelude::*;
use diesel_jobs::testing::Ended::{Completed, Discarded};
use diesel_jobs::testing::{drain, perform};

use crate::database;

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 10))]
struct Count {
    number: i64,
}

impl HandleBatch for Count {
    async fn handle(jobs: Vec<Self>, ctx: BatchContext) -> BatchHandled {
        assert_eq!((jobs.len(), ctx.jobs().len()), (1, 1));
        let number = jobs[0].number;
        if number < 0 { Ok(vec![Err(JobError::msg("negative").fatal())]) } else { ctx.complete_all() }
    }
}

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*]) => {
        #[tokio::test]
        async fn $module() {
            let $database = $create;
            let mut conn = $open;
            for number in [1, -1, 2] {
                Count { number }.enqueue(&mut conn)$($wait)*.unwrap();
            }
            let report = drain(&mut conn).run()$($wait)*.unwrap();
            report.assert_ran::<Count>([Completed, Discarded, Completed]);
            assert_eq!(perform(Count { number: 3 }).on(&mut conn)$($wait)*.unwrap(), Outcome::Complete);
            assert!(perform(Count { number: -3 }).on(&mut conn)$($wait)*.unwrap_err().is_fatal());
        }
    };
}

on!(pg, database = database::Database::create(), database.pg(), []);
on!(pg_async, database = database::Database::create(), database.pg_async().await, [.await]);
on!(sqlite, _ = (), database::sqlite(), []);
on!(sqlite_async, _ = (), database::sqlite_async().await, [.await]);

/// A handler that takes the connection runs in a savepoint. An error of the whole rolls it back, and an error of the
/// job does not.
macro_rules! transactional {
    ($module:ident, $handle:ident<$connection:ty>, [$($asyncness:tt)?], [$($option:tt)*], $dsl:path, $kind:literal,
     $database:pat = $create:expr, $open:expr, [$($wait:tt)*]) => {
        mod $module {
            use $dsl as _;

            use super::*;

            #[derive(serde::Serialize, serde::Deserialize, Job)]
            #[job(batch(max = 10), kind = $kind, connection = $connection, $($option)*)]
            struct Note {
                number: i64,
            }

            impl $handle<$connection> for Note {
                $($asyncness)? fn handle(jobs: Vec<Self>, conn: &mut $connection, ctx: BatchContext) -> BatchHandled {
                    let number = jobs[0].number;
                    let insert = format!("insert into note (text) values ('{number}')");
                    diesel::sql_query(insert).execute(conn)$($wait)*.map_err(JobError::new)?;
                    match number {
                        -1 => Ok(vec![Err(JobError::msg("of the job").fatal())]),
                        -2 => Err(JobError::msg("of the whole").fatal()),
                        -3 => panic!("no more"),
                        _ => ctx.complete_all(),
                    }
                }
            }

            #[derive(diesel::QueryableByName)]
            struct Text {
                #[diesel(sql_type = diesel::sql_types::Text)]
                text: String,
            }

            #[tokio::test]
            async fn runs_in_a_savepoint() {
                let $database = $create;
                let mut conn = $open;
                for number in [1, -1, -2, 2] {
                    Note { number }.enqueue(&mut conn)$($wait)*.unwrap();
                }
                let report = drain(&mut conn).run()$($wait)*.unwrap();
                report.assert_ran::<Note>([Completed, Discarded, Discarded, Completed]);
                assert_eq!(perform(Note { number: 3 }).on(&mut conn)$($wait)*.unwrap(), Outcome::Complete);
                for (number, message) in [(-1, "of the job"), (-2, "of the whole"), (-3, "no more")] {
                    let error = perform(Note { number }).on(&mut conn)$($wait)*.unwrap_err();
                    assert!(error.to_string().contains(message), "{error}");
                }
                let notes: Vec<Text> = diesel::sql_query("select text from note").load(&mut conn)$($wait)*.unwrap();
                let notes: Vec<String> = notes.into_iter().map(|note| note.text).collect();
                assert_eq!(notes, ["1", "-1", "2", "3", "-1"]);
            }
        }
    };
}

transactional!(
    pg_transaction,
    HandleBlockingBatchIn<diesel::PgConnection>,
    [],
    [blocking = true],
    diesel::RunQueryDsl,
    "note_pg",
    database = database::Database::create(),
    database.pg(),
    []
);
transactional!(pg_async_transaction, HandleBatchIn<diesel_async::AsyncPgConnection>, [async], [], diesel_async::RunQueryDsl, "note_pg_async",
    database = database::Database::create(), database.pg_async().await, [.await]);
transactional!(
    sqlite_transaction,
    HandleBlockingBatchIn<diesel::SqliteConnection>,
    [],
    [blocking = true],
    diesel::RunQueryDsl,
    "note_sqlite",
    _ = (),
    database::sqlite(),
    []
);

/// An async connection to SQLite calls the handler with the connection inside it.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(batch(max = 10), connection = diesel::SqliteConnection, blocking = true)]
struct Inside {}

impl HandleBlockingBatchIn<diesel::SqliteConnection> for Inside {
    fn handle(_: Vec<Self>, conn: &mut diesel::SqliteConnection, ctx: BatchContext) -> BatchHandled {
        use diesel::RunQueryDsl as _;
        diesel::sql_query("insert into note (text) values ('inside')").execute(conn).map_err(JobError::new)?;
        ctx.complete_all()
    }
}

#[tokio::test]
async fn sqlite_async_transaction() {
    let mut conn = database::sqlite_async().await;
    Inside {}.enqueue(&mut conn).await.unwrap();
    drain(&mut conn).run().await.unwrap().assert_ran::<Inside>([Completed]);
    assert_eq!(perform(Inside {}).on(&mut conn).await.unwrap(), Outcome::Complete);
    let deleted = diesel::sql_query("delete from note where text = 'inside'");
    assert_eq!(diesel_async::RunQueryDsl::execute(deleted, &mut conn).await.unwrap(), 2);
}
