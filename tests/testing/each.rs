//! `enqueue_each`: jobs from the rows of a query, on every type of connection.

use std::time::Duration;

use chrono::{NaiveDate, NaiveDateTime};
use diesel::prelude::*;
use diesel_jobs::handler::Handle;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::enqueued;
use diesel_jobs::{JobId, assert_enqueued};

use crate::database;

diesel::table! {
    note (text) {
        text -> Text,
    }
}

diesel::table! {
    person (id) {
        id -> BigInt,
        name -> Text,
        active -> Bool,
        born -> Date,
        seen -> Timestamp,
        height -> Double,
        score -> Nullable<Integer>,
    }
}

diesel::table! {
    document (id) {
        id -> BigInt,
        body -> Json,
        notes -> Nullable<Json>,
    }
}

const PEOPLE: &str =
    "create table person (id bigint primary key, name text not null, active boolean not null, born date not null,
    seen timestamp not null, height double precision not null, score integer);
insert into person values
    (1, 'Ada \"the first\"', true, '1815-12-10', '2026-01-02 03:04:05.5', 1.5, null),
    (2, 'Bob', false, '2000-01-01', '2026-01-02 03:04:05', 1.8, 7),
    (3, 'Čeněk', true, '1999-12-31', '2026-01-02 00:00:00', 2, -3)";

#[job(queue = "mail", max_attempts = 3)]
fn greet(person_id: i64, name: &str, template: String) {
    let _ = (person_id, name, template);
}

#[job]
#[expect(clippy::too_many_arguments, reason = "every type that both databases have")]
fn store(
    id: JobId,
    r#type: String,
    active: bool,
    _born: NaiveDate,
    seen: NaiveDateTime,
    height: f64,
    score: Option<i32>,
    no: Option<bool>,
) {
    let _ = (id, r#type, active, seen, height, score, no);
}

#[job]
fn index(body: serde_json::Value, notes: Option<serde_json::Value>) {
    let _ = (body, notes);
}

fn brackets(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// PostgreSQL cuts names of columns after 63 bytes.
#[job]
fn tell_of_long_names(
    a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_1: i64,
    a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_2: i64,
) {
    let _ = a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_1;
    let _ = a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_2;
}

/// The names of the statement's own tables and columns.
#[job]
fn tell_of_taken_names(args: i64, source: i64, queue: &str, c1: Option<i64>, woken: bool) {
    let _ = (args, source, queue, c1, woken);
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[serde(deny_unknown_fields)]
#[job(queue = "derived")]
struct Derived {
    #[serde(alias = "old")]
    number: i64,
}

impl Handle for Derived {
    async fn handle(self, _: JobContext) -> Result<Outcome, JobError> {
        Ok(Outcome::Complete)
    }
}

/// The names and values that a job is stored with, as serde would store it.
fn is_stored_as_serde_stores_it(job: &Store) -> bool {
    let json = serde_json::to_value(job).unwrap();
    json["active"].is_boolean() && json["seen"] == "2026-01-02T03:04:05.500" && json["score"].is_null()
}

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*], $batch:path) => {
        mod $module {
            use super::*;
            use $batch as _;

            #[tokio::test]
            async fn each_row_of_a_query_becomes_a_job() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(PEOPLE)$($wait)*.unwrap();
                let active = person::table.filter(person::active.eq(true)).order(person::id.desc());
                let greeted = active.enqueue_each(&mut conn, Greet::columns(person::id, person::name, "v2"))$($wait)*.unwrap();
                assert_eq!(greeted, 2);
                let jobs = enqueued::<Greet, _>(&mut conn)$($wait)*.unwrap();
                let names: Vec<_> = jobs.iter().map(|job| (job.person_id, job.name.as_str(), job.template.as_str())).collect();
                assert_eq!(names, [(3, "Čeněk", "v2"), (1, "Ada \"the first\"", "v2")], "in the order of the query");
                assert!(jobs.iter().all(|job| (job.queue.as_str(), job.max_attempts) == ("mail", 3)));
            }

            #[tokio::test]
            async fn the_options_of_the_kind_can_be_overridden_and_no_row_makes_no_job() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(PEOPLE)$($wait)*.unwrap();
                let columns = Greet::columns(person::id, "all", person::name)
                    .queue("slow")
                    .priority(-5)
                    .max_attempts(1)
                    .tags(["a", "b"])
                    .delay(Duration::from_secs(3600));
                assert_eq!(person::table.enqueue_each(&mut conn, columns)$($wait)*.unwrap(), 3);
                assert_enqueued!(
                    conn,
                    Greet { person_id: 2, name: "all", template: "Bob" },
                    queue = "slow",
                    priority = -5,
                    max_attempts = 1,
                    tags = ["a", "b"],
                    run_in = 3500..=3600,
                    count = 1
                )$($wait)*;
                let none = person::table.filter(person::id.gt(10));
                let none = none.enqueue_each(&mut conn, Greet::columns(person::id, "", ""))$($wait)*.unwrap();
                assert_eq!(none, 0);
                let refused = person::table.enqueue_each(&mut conn, Greet::columns(person::id, "", "").queue(""))$($wait)*;
                assert!(refused.unwrap_err().to_string().contains("the queue \"\" is empty"));
                assert_eq!(enqueued::<Greet, _>(&mut conn)$($wait)*.unwrap().len(), 3, "the transaction goes on");
            }

            #[tokio::test]
            async fn values_are_stored_as_serde_stores_them() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(PEOPLE)$($wait)*.unwrap();
                let columns = Store::columns(
                    person::id, "x", person::active, person::born, person::seen, person::height, person::score, None::<bool>,
                );
                assert_eq!(person::table.enqueue_each(&mut conn, columns)$($wait)*.unwrap(), 3);
                let jobs = enqueued::<Store, _>(&mut conn)$($wait)*.unwrap();
                let (first, second) = (&jobs[0].args, &jobs[1].args);
                assert!(is_stored_as_serde_stores_it(first));
                assert_eq!((first.id, first.active, first.height, first.score, first.no), (JobId(1), true, 1.5, None, None));
                assert_eq!(first._born, NaiveDate::from_ymd_opt(1815, 12, 10).unwrap());
                assert_eq!((second.active, second.score), (false, Some(7)));
                assert_eq!(second.seen.to_string(), "2026-01-02 03:04:05");
            }

            /// The arguments are one level deeper than their columns.
            #[tokio::test]
            async fn json_that_no_worker_could_read_is_refused() {
                let $database = $create;
                let mut conn = $open;
                let (most, too_deep) = (brackets(126), brackets(127));
                let create = format!(
                    "create table document (id bigint primary key, body json not null, notes json);
                     insert into document values (1, '{most}', null), (2, '[]', '{most}'), (3, '{too_deep}', null), (4, '[]', '{too_deep}')"
                );
                conn.batch_execute(&create)$($wait)*.unwrap();
                for (id, is_refused) in [(1, false), (2, false), (3, true), (4, true)] {
                    let document = document::table.filter(document::id.eq(id));
                    let enqueued = document.enqueue_each(&mut conn, Index::columns(document::body, document::notes))$($wait)*;
                    match enqueued {
                        Ok(jobs) => assert_eq!((jobs, is_refused), (1, false), "document {id}"),
                        Err(problem) => {
                            assert!(is_refused && problem.to_string().contains("nested more than"), "document {id}: {problem}");
                        }
                    }
                }
                let bodies: Vec<_> = enqueued::<Index, _>(&mut conn)$($wait)*.unwrap().iter().map(|job| job.body.to_string()).collect();
                assert_eq!(bodies, [most.as_str(), "[]"]);
            }

            #[tokio::test]
            async fn arguments_of_any_name_come_back() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(PEOPLE)$($wait)*.unwrap();
                let long = TellOfLongNames::columns(person::id, person::id + 10);
                assert_eq!(person::table.enqueue_each(&mut conn, long)$($wait)*.unwrap(), 3);
                assert_enqueued!(
                    conn,
                    TellOfLongNames {
                        a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_1: 3,
                        a_name_of_more_than_sixty_three_bytes_that_differs_only_at_its_end_2: 13
                    },
                    count = 1
                )$($wait)*;
                let taken = TellOfTakenNames::columns(person::id, person::id + 10, person::name, None::<i64>, person::active);
                assert_eq!(person::table.enqueue_each(&mut conn, taken)$($wait)*.unwrap(), 3);
                let expected = TellOfTakenNames { args: 2, source: 12, queue: "Bob".to_owned(), c1: None, woken: false };
                assert_eq!(enqueued::<TellOfTakenNames, _>(&mut conn)$($wait)*.unwrap()[1].args, expected);
            }

            #[tokio::test]
            async fn a_derived_job_has_columns_and_large_arguments_come_back() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(PEOPLE)$($wait)*.unwrap();
                let doubled = Derived::columns(person::id + 40);
                assert_eq!(person::table.enqueue_each(&mut conn, doubled)$($wait)*.unwrap(), 3);
                assert_enqueued!(conn, Derived { number: 42 }, queue = "derived", count = 1)$($wait)*;
                let large = "x".repeat(100_000);
                let one = person::table.filter(person::id.eq(1));
                one.enqueue_each(&mut conn, Greet::columns(person::id, large.as_str(), ""))$($wait)*.unwrap();
                assert_eq!(enqueued::<Greet, _>(&mut conn)$($wait)*.unwrap()[0].name.len(), 100_000);
            }
        }
    };
}

on!(pg, database = database::Database::create(), database.pg(), [], diesel::connection::SimpleConnection);
on!(
    pg_async,
    database = database::Database::create(),
    database.pg_async().await,
    [.await],
    diesel_async::SimpleAsyncConnection
);
on!(sqlite, _ = (), database::sqlite(), [], diesel::connection::SimpleConnection);
on!(
    sqlite_async,
    _ = (),
    database::sqlite_async().await,
    [.await],
    diesel_async::SimpleAsyncConnection
);

diesel::table! {
    invoice (id) {
        id -> BigInt,
        job_id -> BigInt,
        earlier -> Nullable<BigInt>,
    }
}

#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = invoice)]
struct Invoice {
    id: i64,
    job_id: JobId,
    earlier: Option<JobId>,
}

macro_rules! the_id_of_a_job_is_the_value_of_a_column {
    ($conn:expr) => {{
        use diesel::connection::SimpleConnection as _;
        let mut conn = $conn;
        conn.batch_execute("create table invoice (id bigint primary key, job_id bigint not null, earlier bigint)")
            .unwrap();
        let job_id = Greet::new(1, "Ada", "v1").enqueue(&mut conn).unwrap().id();
        let invoice = Invoice { id: 1, job_id, earlier: None };
        diesel::insert_into(invoice::table).values(&invoice).execute(&mut conn).unwrap();
        diesel::update(invoice::table).set(invoice::earlier.eq(Some(job_id))).execute(&mut conn).unwrap();
        let of_the_job = invoice::table.filter(invoice::job_id.eq(job_id)).select(Invoice::as_select());
        let found: Invoice = of_the_job.get_result(&mut conn).unwrap();
        assert_eq!((found.id, found.job_id, found.earlier), (1, job_id, Some(job_id)));
    }};
}

#[test]
fn the_id_of_a_job_is_the_value_of_a_column() {
    the_id_of_a_job_is_the_value_of_a_column!(database::sqlite());
    let database = database::Database::create();
    the_id_of_a_job_is_the_value_of_a_column!(database.pg());
}

#[job]
fn remember(
    at: chrono::DateTime<chrono::Utc>,
    key: uuid::Uuid,
    names: Vec<String>,
    numbers: Option<Vec<i64>>,
    value: serde_json::Value,
) {
    let _ = (at, key, names, numbers, value);
}

/// PostgreSQL's own types, under settings that change how they are printed.
#[test]
fn postgres_types_come_back_under_any_setting() {
    use diesel::connection::SimpleConnection as _;
    use diesel::dsl::sql;
    use diesel::sql_types::{Array, BigInt, Json, Nullable, Text, Timestamptz, Uuid};

    let database = database::Database::create();
    let mut conn = database.pg();
    conn.batch_execute(
        "set local timezone = 'Asia/Kathmandu'; set local datestyle = 'German'; set local extra_float_digits = -15",
    )
    .unwrap();
    let columns = Remember::columns(
        sql::<Timestamptz>("timestamptz '2026-01-02 03:04:05.123456+00'"),
        sql::<Uuid>("uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        sql::<Array<Text>>("array['a', '\"']"),
        sql::<Nullable<Array<BigInt>>>("array[1, 2]::bigint[]"),
        sql::<Json>("json '{\"a\": [1]}'"),
    );
    conn.batch_execute("insert into note values ('one')").unwrap();
    assert_eq!(note::table.enqueue_each(&mut conn, columns).unwrap(), 1);
    let job = enqueued::<Remember, _>(&mut conn).unwrap().remove(0).args;
    assert_eq!(job.at.to_rfc3339(), "2026-01-02T03:04:05.123456+00:00");
    assert_eq!(job.key.to_string(), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    assert_eq!((job.names, job.numbers), (vec!["a".to_owned(), "\"".to_owned()], Some(vec![1, 2])));
    assert_eq!(job.value, serde_json::json!({"a": [1]}));
}

/// Arguments above the limit fail the statement, as they do with `jobs.enqueue`.
#[test]
fn postgres_refuses_arguments_above_the_limit() {
    use diesel::connection::SimpleConnection as _;
    let database = database::Database::create();
    let mut conn = database.pg();
    conn.batch_execute(PEOPLE).unwrap();
    let large = "x".repeat(300_000);
    let refused = person::table.enqueue_each(&mut conn, Greet::columns(person::id, large, "")).unwrap_err().to_string();
    assert!(refused.contains("the arguments of a job of kind greet take more than 262144 bytes"), "{refused}");
}
