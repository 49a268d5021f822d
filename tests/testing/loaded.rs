//! Rows of handlers that take no connection: the kit loads them through the test's connection.

use diesel::connection::SimpleConnection as _;
use diesel::{ExpressionMethods as _, Identifiable, QueryDsl as _, Queryable, Selectable};
use diesel_async::SimpleAsyncConnection as _;
use diesel_jobs::handler::Handled;
use diesel_jobs::prelude::*;
use diesel_jobs::rows::{Key, Ref};
use diesel_jobs::testing::{drain, perform};

use crate::database::{Database, sqlite, sqlite_async};

diesel::table! {
    readers (id) { id -> BigInt, name -> Text, }
}

diesel::table! {
    loans (reader_id, book) { reader_id -> BigInt, book -> Text, days -> Integer, }
}

const TABLES: &str = "
    create table readers (id bigint primary key, name text not null);
    create table loans (reader_id bigint, book text, days integer not null, primary key (reader_id, book));
    insert into readers values (7, 'Ada'), (8, 'Grace');
    insert into loans values (7, 'logic', 30)";

#[derive(Debug, Identifiable, Queryable, Selectable)]
struct Reader {
    id: i64,
    name: String,
}

#[derive(Identifiable, Queryable, Selectable)]
#[diesel(primary_key(reader_id, book))]
struct Loan {
    book: String,
    reader_id: i64,
}

/// Has columns of both databases, so both can load it.
#[job(kind = "loaded_reminds")]
async fn reminds(loan: Ref<Loan>, Ref(reader): Ref<Reader>, text: &str, ctx: &JobContext) -> Result<String, JobError> {
    tokio::task::yield_now().await;
    Ok(format!("{text} {}, {} of {}, attempt {}", reader.name, loan.book, loan.reader_id, ctx.attempt()))
}

#[job(kind = "loaded_reminds_on_a_thread")]
fn reminds_on_a_thread(
    text: String,
    loan: Ref<Loan>,
    reader: Ref<Reader>,
    ctx: JobContext,
) -> Result<String, JobError> {
    Ok(format!("{text} {}, {} of {}, attempt {}", reader.name, loan.book, loan.reader_id, ctx.attempt()))
}

#[job(kind = "loaded_cancels")]
async fn cancels(reader: Ref<Reader>) {
    assert_eq!(reader.id, 7);
}

#[job(kind = "loaded_discards")]
fn discards(#[arg(gone = "discard")] reader: Ref<Reader>) {
    assert_eq!(reader.id, 7);
}

#[job(kind = "loaded_retries", max_attempts = 2)]
async fn retries(#[arg(gone = "retry", secret)] reader: Ref<Reader>) {
    assert_eq!(reader.id, 7);
}

#[job(kind = "loaded_decides")]
fn decides(#[arg(gone = "none")] reader: Option<Ref<Reader>>) -> Result<String, JobError> {
    Ok(reader.map_or_else(|| "nobody".to_owned(), |reader| reader.into_inner().name))
}

#[job(kind = "loaded_panics", max_attempts = 1)]
async fn panics(reader: Ref<Reader>) {
    panic!("not {}", reader.name);
}

fn answer(handled: Handled) -> String {
    match handled {
        Ok(Outcome::CompleteWith(output)) => output.json().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// The tests for a type of connection.
macro_rules! on {
    ($module:ident, [$($wait:tt)*], $dsl:path, $database:pat = $create:expr, $open:expr) => {
        mod $module {
            use $dsl as _;

            use super::*;

            #[tokio::test]
            async fn a_handler_without_a_connection_gets_its_rows_as_they_are_now() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(TABLES)$($wait)*.unwrap();
                let loan = || Key::new((7, "logic".to_owned()));
                Reminds::new(loan(), 7, "Return it,").enqueue(&mut conn)$($wait)*.unwrap();
                RemindsOnAThread::new("Please,", loan(), 8).enqueue(&mut conn)$($wait)*.unwrap();
                let countess = readers::name.eq("Countess");
                diesel::update(readers::table.find(7)).set(countess).execute(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).run()$($wait)*.unwrap();
                let outputs: Vec<_> = report.ran.iter().map(|ran| ran.output.as_ref().unwrap().json().unwrap().to_owned()).collect();
                assert_eq!(
                    outputs,
                    [r#""Return it, Countess, logic of 7, attempt 1""#, r#""Please, Grace, logic of 7, attempt 1""#]
                );
            }

            #[tokio::test]
            async fn a_job_whose_row_is_gone_ends_as_its_argument_says() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(TABLES)$($wait)*.unwrap();
                Cancels::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                Discards::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                Retries::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).skip_time().run()$($wait)*.unwrap();
                let ran: Vec<_> = report.ran.iter().map(|ran| (&*ran.kind, ran.error.as_deref().unwrap_or(""))).collect();
                let secret = "there is no `Reader` with the primary key [redacted]";
                assert_eq!(
                    ran,
                    [
                        ("loaded_cancels", "there is no `Reader` with the primary key 9"),
                        ("loaded_discards", "there is no `Reader` with the primary key 9"),
                        ("loaded_retries", secret),
                        ("loaded_retries", secret),
                    ],
                    "{report}"
                );
                report.assert_discarded::<Discards>(1);
                report.assert_discarded::<Retries>(1);
                let there = perform(Decides::new(8)).on(&mut conn)$($wait)*;
                let gone = perform(Decides::new(9)).on(&mut conn)$($wait)*;
                assert_eq!([answer(there), answer(gone)], ["\"Grace\"", "\"nobody\""]);
            }

            #[tokio::test]
            async fn a_failed_query_and_a_panic_end_the_attempt_and_not_the_tests_transaction() {
                let $database = $create;
                let mut conn = $open;
                Cancels::new(7).enqueue(&mut conn)$($wait)*.unwrap();
                let failed = perform(Cancels::new(7)).on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(failed.contains("readers"), "{failed}");
                conn.batch_execute(TABLES)$($wait)*.unwrap();
                let panicked = perform(Panics::new(7)).on(&mut conn)$($wait)*.unwrap_err().to_string();
                assert!(panicked.contains("not Ada"), "{panicked}");
                let wrong = perform(Cancels { reader: serde_json::from_str("\"x\"").unwrap() }).on(&mut conn)$($wait)*;
                assert!(wrong.unwrap_err().to_string().contains("invalid type"));
                drain(&mut conn).run()$($wait)*.unwrap().assert_completed::<Cancels>(1);
            }
        }
    };
}

on!(pg, [], diesel::RunQueryDsl, database = Database::create(), database.pg());
on!(pg_async, [.await], diesel_async::RunQueryDsl, database = Database::create(), database.pg_async().await);
on!(sqlite_sync, [], diesel::RunQueryDsl, _ = (), sqlite());
on!(sqlite_wrapped, [.await], diesel_async::RunQueryDsl, _ = (), sqlite_async().await);
