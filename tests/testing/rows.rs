//! Arguments that are rows: the job stores the key, and the handler gets the row.

use diesel::connection::SimpleConnection as _;
use diesel::{
    Connection as _, ExpressionMethods as _, Identifiable, PgConnection, QueryDsl as _, QueryResult, Queryable,
    Selectable, SqliteConnection,
};
use diesel_async::AsyncPgConnection;
use diesel_jobs::prelude::*;
use diesel_jobs::rows::LoadRow as _;
use diesel_jobs::rows::{Key, Ref};
use diesel_jobs::testing::{drain, enqueued, perform};
use diesel_jobs::{assert_enqueued, refute_enqueued};

use crate::database;

diesel::table! {
    users (id) { id -> BigInt, name -> Text, }
}

diesel::table! {
    enrolments (student_id, course) { student_id -> BigInt, course -> Text, grade -> Integer, }
}

diesel::table! {
    note (text) { text -> Text, }
}

const TABLES: &str = "
    create table users (id bigint primary key, name text not null);
    create table enrolments (student_id bigint, course text, grade integer not null, primary key (student_id, course));
    insert into users values (7, 'Ada'), (8, 'Grace');
    insert into enrolments values (7, 'logic', 1)";

#[derive(Debug, PartialEq, Identifiable, Queryable, Selectable)]
struct User {
    id: i64,
    name: String,
}

/// Its columns are in another order than in the table, and one is left out.
#[derive(Identifiable, Queryable, Selectable)]
#[diesel(primary_key(student_id, course))]
struct Enrolment {
    course: String,
    student_id: i64,
}

/// The tests for a type of connection, with the jobs that take it.
macro_rules! on {
    ($module:ident, $connection:ty, [$($asyncness:tt)?], $dsl:path, [$($wait:tt)*], $database:pat = $create:expr, $open:expr,
     $remind:literal, $grade:literal, $discards:literal, $retries:literal, $decides:literal) => {
        mod $module {
            use $dsl as _;

            use super::*;

            #[job(kind = $remind)]
            $($asyncness)? fn remind(user: Ref<User>, conn: &mut $connection) -> QueryResult<()> {
                let note = format!("{} of {}", user.name, user.id);
                diesel::insert_into(note::table).values(note::text.eq(note)).execute(conn)$($wait)*.map(drop)
            }

            #[job(kind = $grade)]
            $($asyncness)? fn grade(
                points: i32,
                #[arg(lock)] Ref(enrolment): Ref<Enrolment>,
                ctx: &JobContext,
                conn: &mut $connection,
            ) -> QueryResult<()> {
                let note = format!("{} of {}: {points}, attempt {}", enrolment.course, enrolment.student_id, ctx.attempt());
                diesel::insert_into(note::table).values(note::text.eq(note)).execute(conn)$($wait)*.map(drop)
            }

            #[job(kind = $discards)]
            $($asyncness)? fn discards(_conn: &mut $connection, #[arg(gone = "discard")] user: Ref<User>) {
                assert_eq!(user.id, 7);
            }

            #[job(kind = $retries, max_attempts = 2)]
            $($asyncness)? fn retries(#[arg(gone = "retry", secret)] user: Ref<User>, _conn: &mut $connection) {
                assert_eq!(user.id, 7);
            }

            #[job(kind = $decides)]
            $($asyncness)? fn decides(user: Option<Ref<User>>, _conn: &mut $connection) -> Result<String, JobError> {
                Ok(user.map_or_else(|| "nobody".to_owned(), |user| user.into_inner().name))
            }

            #[tokio::test]
            async fn a_handler_gets_the_row_as_it_is_now() {
                let $database = $create;
                let mut conn = $open;
                let ada = User { id: 7, name: "Ada".to_owned() };
                Remind::new(&ada).enqueue(&mut conn)$($wait)*.unwrap();
                Remind { user: 8.into() }.enqueue(&mut conn)$($wait)*.unwrap();
                Grade::new(12, (7, "logic".to_owned())).enqueue(&mut conn)$($wait)*.unwrap();
                assert_enqueued!(conn, Remind { user: 7 })$($wait)*;
                assert_enqueued!(conn, Remind { user: Key::<User>::from(8) })$($wait)*;
                refute_enqueued!(conn, Remind { user: 9 })$($wait)*;
                let stored = enqueued::<Grade, _>(&mut conn)$($wait)*.unwrap();
                assert_eq!(serde_json::to_string(&stored[0].args).unwrap(), r#"{"points":12,"enrolment":[7,"logic"]}"#);

                let countess = users::name.eq("Countess");
                diesel::update(users::table.find(7)).set(countess).execute(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).run()$($wait)*.unwrap();
                report.assert_completed::<Remind>(2);
                report.assert_completed::<Grade>(1);
                let notes: Vec<String> = note::table.select(note::text).order(note::text).load(&mut conn)$($wait)*.unwrap();
                assert_eq!(notes, ["Countess of 7", "Grace of 8", "logic of 7: 12, attempt 1"]);
            }

            #[tokio::test]
            async fn a_job_whose_row_is_gone_ends_as_its_argument_says() {
                let $database = $create;
                let mut conn = $open;
                Remind::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                Grade::new(12, (7, "rhetoric".to_owned())).enqueue(&mut conn)$($wait)*.unwrap();
                Discards::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                Retries::new(9).enqueue(&mut conn)$($wait)*.unwrap();
                let report = drain(&mut conn).skip_time().run()$($wait)*.unwrap();
                let ran: Vec<_> = report.ran.iter().map(|ran| (&*ran.kind, ran.error.as_deref().unwrap_or(""))).collect();
                let secret = "there is no `User` with the primary key [redacted]";
                assert_eq!(
                    ran,
                    [
                        ($remind, "there is no `User` with the primary key 9"),
                        ($grade, "there is no `Enrolment` with the primary key [7,\"rhetoric\"]"),
                        ($discards, "there is no `User` with the primary key 9"),
                        ($retries, secret),
                        ($retries, secret),
                    ],
                    "{report}"
                );
                report.assert_discarded::<Discards>(1);
                report.assert_discarded::<Retries>(1);
                let text = report.to_string();
                assert!(text.matches("cancelled").count() == 2, "{text}");
            }

            #[tokio::test]
            async fn a_handler_that_takes_an_option_decides_by_itself() {
                let $database = $create;
                let mut conn = $open;
                let there = perform(Decides::new(8)).on(&mut conn)$($wait)*.unwrap();
                let gone = perform(Decides::new(9)).on(&mut conn)$($wait)*.unwrap();
                let outcome = |json: &str| Outcome::CompleteWith(diesel_jobs::handler::Output::of_json(json));
                assert_eq!([there, gone], [outcome("\"Grace\""), outcome("\"nobody\"")]);
            }

            #[tokio::test]
            async fn a_query_provides_the_key() {
                let $database = $create;
                let mut conn = $open;
                let everyone = users::table.order(users::id);
                assert_eq!(everyone.enqueue_each(&mut conn, Remind::columns(users::id))$($wait)*.unwrap(), 2);
                drain(&mut conn).run()$($wait)*.unwrap().assert_completed::<Remind>(2);
            }
        }
    };
}

fn postgres() -> database::Database {
    let database = database::Database::create();
    PgConnection::establish(&database.url()).unwrap().batch_execute(TABLES).unwrap();
    database
}

fn sqlite() -> SqliteConnection {
    let mut conn = database::sqlite();
    conn.batch_execute(TABLES).unwrap();
    conn
}

on!(
    pg,
    PgConnection,
    [],
    diesel::RunQueryDsl,
    [],
    database = postgres(),
    database.pg(),
    "remind_pg",
    "grade_pg",
    "discards_pg",
    "retries_pg",
    "decides_pg"
);
on!(
    pg_async, AsyncPgConnection, [async], diesel_async::RunQueryDsl, [.await], database = postgres(), database.pg_async().await,
    "remind_async", "grade_async", "discards_async", "retries_async", "decides_async"
);
on!(
    sqlite_sync,
    SqliteConnection,
    [],
    diesel::RunQueryDsl,
    [],
    _ = (),
    sqlite(),
    "remind_sqlite",
    "grade_sqlite",
    "discards_sqlite",
    "retries_sqlite",
    "decides_sqlite"
);

#[test]
fn lock_takes_the_lock_of_the_row() {
    const TRY: &str = "begin; select from users where id = 7 for no key update nowait; rollback";
    let database = postgres();
    let mut holder = database.pg();
    let mut other = PgConnection::establish(&database.url()).unwrap();
    let key: Key<User> = 7.into();
    assert!(holder.load_row(&key, false).unwrap().is_some());
    other.batch_execute(TRY).unwrap();
    assert_eq!(holder.load_row(&key, true).unwrap().map(|row: User| row.name).as_deref(), Some("Ada"));
    let refused = other.batch_execute(TRY).unwrap_err().to_string();
    assert!(refused.contains("could not obtain lock on row"), "{refused}");
}

#[test]
fn a_key_is_stored_as_its_value() {
    let key: Key<User> = 7.into();
    assert_eq!((serde_json::to_string(&key).unwrap(), format!("{key:?}")), ("7".to_owned(), "7".to_owned()));
    assert_eq!(serde_json::from_str::<Key<User>>("7").unwrap(), key);
    assert!(key == 7 && key != 8 && key.value().unwrap() == 7);
    assert!(serde_json::from_str::<Key<User>>("\"x\"").unwrap().value().is_err());
}
