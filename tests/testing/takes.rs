//! Parameters that are a free row of a table.

use diesel::connection::SimpleConnection as _;
use diesel::{
    Connection as _, ExpressionMethods as _, Identifiable, PgConnection, QueryDsl as _, QueryResult, Queryable,
    Selectable, SqliteConnection,
};
use diesel_async::AsyncPgConnection;
use diesel_jobs::prelude::*;
use diesel_jobs::rows::Take;
use diesel_jobs::testing::{drain, perform};

use crate::database;

diesel::table! {
    coupons (code) { code -> Text, used_by -> Nullable<BigInt>, }
}

const TABLES: &str = "
    create table coupons (code text primary key, used_by bigint);
    insert into coupons values ('a', null), ('b', null), ('old', 3)";

#[derive(Debug, Identifiable, Queryable, Selectable)]
#[diesel(primary_key(code))]
struct Coupon {
    code: String,
}

#[diesel::dsl::auto_type]
fn free_coupons() -> _ {
    coupons::table.filter(coupons::used_by.is_null()).order(coupons::code)
}

/// The tests for a type of connection, with the jobs that take it.
macro_rules! on {
    ($module:ident, $connection:ty, [$($asyncness:tt)?], $dsl:path, [$($wait:tt)*], $database:pat = $create:expr, $open:expr,
     $give:literal, $any:literal) => {
        mod $module {
            use $dsl as _;

            use super::*;

            #[job(kind = $give)]
            $($asyncness)? fn give(
                user_id: i64,
                #[arg(from = free_coupons)] Take(coupon): Take<Coupon>,
                conn: &mut $connection,
            ) -> Result<String, JobError> {
                let used = diesel::update(coupons::table.find(&coupon.code)).set(coupons::used_by.eq(user_id));
                used.execute(conn)$($wait)*.map_err(JobError::new)?;
                if user_id == 13 {
                    return Err(JobError::msg("no coupon for 13").fatal());
                }
                Ok(coupon.code)
            }

            #[job(kind = $any)]
            $($asyncness)? fn any(_conn: &mut $connection, #[arg(lock = "wait")] row: Take<Coupon>) -> Result<String, JobError> {
                Ok(row.into_inner().code)
            }

            #[tokio::test]
            async fn each_job_gets_a_row_of_its_own() {
                let $database = $create;
                let mut conn = $open;
                for user in [1, 13, 2, 4] {
                    Give::new(user).enqueue(&mut conn)$($wait)*.unwrap();
                }
                let report = drain(&mut conn).once().run()$($wait)*.unwrap();
                let given: Vec<_> = report
                    .ran
                    .iter()
                    .map(|ran| ran.output.as_ref().and_then(|output| output.read::<String>().unwrap()))
                    .collect();
                assert_eq!(given, [Some("a".to_owned()), None, Some("b".to_owned()), None], "{report}");
                report.assert_discarded::<Give>(1);
                assert!(report.to_string().contains("snoozed"), "{report}");
                let free: i64 = coupons::table.filter(coupons::used_by.is_null()).count().get_result(&mut conn)$($wait)*.unwrap();
                assert_eq!((free, report.waiting.len()), (0, 1), "{report}");
            }

            #[tokio::test]
            async fn without_a_function_any_row_is_free() {
                let $database = $create;
                let mut conn = $open;
                let outcome = perform(Any::new()).on(&mut conn)$($wait)*.unwrap();
                assert!(matches!(outcome, Outcome::CompleteWith(_)), "{outcome:?}");
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

on!(pg, PgConnection, [], diesel::RunQueryDsl, [], database = postgres(), database.pg(), "give_pg", "any_pg");
on!(
    pg_async,
    AsyncPgConnection,
    [async],
    diesel_async::RunQueryDsl,
    [.await],
    database = postgres(),
    database.pg_async().await,
    "give_async",
    "any_async"
);
on!(sqlite_sync, SqliteConnection, [], diesel::RunQueryDsl, [], _ = (), sqlite(), "give_sqlite", "any_sqlite");

mod locked {
    use diesel::RunQueryDsl as _;
    use diesel_jobs::rows::{RowLock, TakeRow as _};

    use super::*;

    fn take(conn: &mut PgConnection, lock: RowLock) -> QueryResult<Option<String>> {
        Ok(conn.take_row(free_coupons(), lock)?.map(|coupon: Coupon| coupon.code))
    }

    #[test]
    fn a_row_of_another_transaction_is_passed_over_or_refused() {
        let database = postgres();
        let (mut one, mut other) = (database.pg(), database.pg());
        assert_eq!(take(&mut one, RowLock::Skip).unwrap().as_deref(), Some("a"));
        assert_eq!(take(&mut other, RowLock::Skip).unwrap().as_deref(), Some("b"));
        let mut third = database.pg();
        assert_eq!(take(&mut third, RowLock::Skip).unwrap(), None);
        diesel::sql_query("set local lock_timeout = '50ms'").execute(&mut third).unwrap();
        let refused = take(&mut third, RowLock::NoWait).unwrap_err().to_string();
        assert!(refused.contains("could not obtain lock"), "{refused}");
        let mut fourth = database.pg();
        diesel::sql_query("set local lock_timeout = '50ms'").execute(&mut fourth).unwrap();
        let waited = take(&mut fourth, RowLock::Wait).unwrap_err().to_string();
        assert!(waited.contains("lock timeout"), "{waited}");
    }
}
