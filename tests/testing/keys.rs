//! Keys of numbers beyond 64 bits, and `enqueue_each` of kinds with limits and keys, on every type of connection.

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel_jobs::EnqueueError;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::enqueued;

use crate::database;

diesel::table! {
    player (id) {
        id -> BigInt,
        team -> Text,
        weight -> Double,
    }
}

/// 1201 rows, which are read in three parts. There are 7 teams, and each weight is there four times.
const ROWS: &str = "create table player (id bigint primary key, team text not null, weight double precision not null);
insert into player
    with recursive n (id) as (select 1 union all select id + 1 from n where id < 1201)
    select id, 'team ' || (id % 7), (id / 4) / 2.0 from n";

#[job(unique())]
fn whole(id: u128) {
    let _ = id;
}

#[job(concurrency(limit = 1, by(id)))]
fn by_id(id: u128) {
    let _ = id;
}

#[job(unique(by(value)))]
fn by_value(value: BTreeMap<String, Vec<f64>>, note: &str) {
    let _ = (value, note);
}

#[job(unique(by(team, weight)))]
fn once(team: &str, weight: f64, id: i64) {
    let _ = (team, weight, id);
}

#[job(unique(by(team), on_conflict = "replace(args)"))]
fn newest(team: &str, id: i64) {
    let _ = (team, id);
}

#[job(unique(by(team), on_conflict = "error"))]
fn strict(team: &str) {
    let _ = team;
}

#[job(concurrency(limit = 2, by(team)), fair(by(weight)), expires = "1h")]
fn limited(team: &str, weight: f64) {
    let _ = (team, weight);
}

#[job(sequence("teams", by(team)), rate(limit = 5, per = "1m", by(weight)))]
fn ordered(team: &str, weight: f64, id: i64) {
    let _ = (team, weight, id);
}

const LARGE: u128 = 1 << 64;

macro_rules! on {
    ($module:ident, $database:pat = $create:expr, $open:expr, [$($wait:tt)*], $batch:path, $run:path, $held:literal) => {
        mod $module {
            use super::*;
            use $batch as _;

            #[tokio::test]
            async fn numbers_beyond_64_bits_are_keys_with_all_their_digits() {
                let $database = $create;
                let mut conn = $open;
                let numbers = [LARGE - 1, LARGE, LARGE + 1, u128::MAX - 1, u128::MAX];
                for id in numbers {
                    let first = Whole { id }.enqueue(&mut conn)$($wait)*.unwrap();
                    let again = Whole { id }.enqueue(&mut conn)$($wait)*.unwrap();
                    assert!(first.is_new() && again.is_existing(), "{id}");
                    ById { id }.enqueue(&mut conn)$($wait)*.unwrap();
                }
                let jobs = enqueued::<Whole, _>(&mut conn)$($wait)*.unwrap();
                assert_eq!(jobs.iter().map(|job| job.args.id).collect::<Vec<_>>(), numbers);
                let sql = format!($held, format!("[{}]", LARGE + 1));
                let of_key: Vec<Count> = $run(diesel::sql_query(sql), &mut conn)$($wait)*.unwrap();
                assert_eq!(of_key[0].number, 1, "a limit counts the jobs of this number alone");
            }

            #[tokio::test]
            async fn nested_values_are_keys() {
                let $database = $create;
                let mut conn = $open;
                let value = |name: &str, number: f64| BTreeMap::from([(name.to_owned(), vec![number, 1.0]), ("b".to_owned(), vec![])]);
                for (value, is_new) in
                    [(value("a", 0.5), true), (value("a", 0.5), false), (value("c", 0.5), true), (value("a", -0.0), true), (value("a", 0.0), false)]
                {
                    let job = ByValue { value: value.clone(), note: is_new.to_string() };
                    assert_eq!(job.enqueue(&mut conn)$($wait)*.unwrap().is_new(), is_new, "{value:?}");
                }
            }

            #[tokio::test]
            async fn each_row_with_another_unique_key_becomes_a_job() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(ROWS)$($wait)*.unwrap();
                let all = || player::table.order(player::id);
                let columns = || Once::columns(player::team, player::weight, player::id);
                assert_eq!(all().enqueue_each(&mut conn, columns())$($wait)*.unwrap(), 1201, "four rows of a weight have different teams");
                assert_eq!(all().enqueue_each(&mut conn, columns())$($wait)*.unwrap(), 0);
                // The keys are those of other enqueues.
                let one = Once { team: "team 5".to_owned(), weight: 0.5, id: 0 };
                assert!(one.enqueue(&mut conn)$($wait)*.unwrap().is_existing());
                let replaced = all().enqueue_each(&mut conn, Newest::columns(player::team, player::id))$($wait)*.unwrap();
                assert_eq!(replaced, 7);
                let mut newest: Vec<i64> = enqueued::<Newest, _>(&mut conn)$($wait)*.unwrap().iter().map(|job| job.args.id).collect();
                newest.sort_unstable();
                assert_eq!(newest, (1195..=1201).collect::<Vec<_>>(), "the last rows of each team");
            }

            #[tokio::test]
            async fn a_key_that_is_taken_undoes_the_rows_before_it() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(ROWS)$($wait)*.unwrap();
                // The second row of the last part has the team of a job.
                Strict { team: "x".to_owned() }.enqueue(&mut conn)$($wait)*.unwrap();
                conn.batch_execute("update player set team = 'only ' || id; update player set team = 'x' where id = 1002")$($wait)*.unwrap();
                let refused = player::table.order(player::id).enqueue_each(&mut conn, Strict::columns(player::team))$($wait)*.unwrap_err();
                assert!(matches!(refused, EnqueueError::Exists { .. }), "{refused}");
                assert_eq!(enqueued::<Strict, _>(&mut conn)$($wait)*.unwrap().len(), 1, "the transaction goes on");
                let others = player::table.filter(player::team.ne("x"));
                assert_eq!(others.enqueue_each(&mut conn, Strict::columns(player::team))$($wait)*.unwrap(), 1200);
            }

            #[tokio::test]
            async fn each_row_has_its_limit_and_its_turn() {
                let $database = $create;
                let mut conn = $open;
                conn.batch_execute(ROWS)$($wait)*.unwrap();
                let all = || player::table.order(player::id.desc());
                assert_eq!(all().enqueue_each(&mut conn, Limited::columns(player::team, player::weight))$($wait)*.unwrap(), 1201);
                assert_eq!(all().enqueue_each(&mut conn, Ordered::columns(player::team, player::weight, player::id))$($wait)*.unwrap(), 1201);
                let order: Vec<i64> = enqueued::<Ordered, _>(&mut conn)$($wait)*.unwrap().iter().map(|job| job.args.id).collect();
                assert_eq!(order, (1..=1201).rev().collect::<Vec<_>>());
                for (key, jobs) in [("[\"team 3\"]", 2 * 172), ("[\"team 5\"]", 2 * 171)] {
                    let sql = format!($held, key);
                    let held: Vec<Count> = $run(diesel::sql_query(sql), &mut conn)$($wait)*.unwrap();
                    assert_eq!(held[0].number, jobs, "{key}");
                }
            }
        }
    };
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    number: i64,
}

on!(
    pg,
    database = database::Database::create(),
    database.pg(),
    [],
    diesel::connection::SimpleConnection,
    RunQueryDsl::load,
    "select count(*) as number from jobs.held where limit_key = '{}'"
);
on!(
    pg_async,
    database = database::Database::create(),
    database.pg_async().await,
    [.await],
    diesel_async::SimpleAsyncConnection,
    diesel_async::RunQueryDsl::load,
    "select count(*) as number from jobs.held where limit_key = '{}'"
);
on!(
    sqlite,
    _ = (),
    database::sqlite(),
    [],
    diesel::connection::SimpleConnection,
    RunQueryDsl::load,
    "select count(*) as number from jobs_job where rules ->> '$[0].key' = '{}'"
);
on!(
    sqlite_async,
    _ = (),
    database::sqlite_async().await,
    [.await],
    diesel_async::SimpleAsyncConnection,
    diesel_async::RunQueryDsl::load,
    "select count(*) as number from jobs_job where rules ->> '$[0].key' = '{}'"
);
