//! The pools bb8 and mobc: enqueueing takes their objects as they are, the testing kit takes `&mut *conn`. The pool has
//! one connection, as in the guide, so each `get` returns the connection of the test transaction.

use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, mobc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob as _;
use diesel_jobs::prelude::*;
use diesel_jobs::testing::{drain, enqueued, perform};
use diesel_jobs::{NewJob, assert_enqueued, refute_enqueued};

use crate::database::Database;
use crate::jobs::*;

diesel::table! {
    note (text) {
        text -> Text,
    }
}

macro_rules! a_pools_object_enqueues_and_is_tested {
    ($pool:expr) => {{
        let pool = $pool;
        pool.get().await.unwrap().begin_test_transaction().await.unwrap();
        {
            // The application's part.
            let mut conn = pool.get().await.unwrap();
            diesel_async::RunQueryDsl::execute(diesel::sql_query(NOTE), &mut conn).await.unwrap();
            Charge { order_id: 7 }.enqueue(&mut conn).await.unwrap();
            Charge { order_id: 8 }.enqueue(&mut *conn).await.unwrap();
            let many = [Snooze, Snooze].map(|job| job.into_new_job().unwrap());
            diesel_jobs::enqueue_all(&mut conn, many.to_vec()).await.unwrap();
            NewJob::raw("of_another_program", "{}").enqueue(&mut conn).await.unwrap();
            let each = SendWelcome::columns(
                diesel::dsl::sql::<diesel::sql_types::BigInt>("1"),
                note::text,
                Vec::<String>::new(),
            );
            assert_eq!(note::table.enqueue_each(&mut conn, each).await.unwrap(), 1);
        }
        let mut conn = pool.get().await.unwrap();
        assert_enqueued!(conn, Charge { order_id: 7 }, count = 1).await;
        refute_enqueued!(conn, Charge { order_id: 9 }).await;
        assert_eq!(enqueued::<Charge, _>(&mut *conn).await.unwrap().len(), 2);
        WriteAsync.enqueue(&mut conn).await.unwrap();
        let report = drain(&mut *conn).state(Calls::default()).only::<WriteAsync>().skip_time().run().await.unwrap();
        report.assert_completed::<WriteAsync>(1);
        perform(WriteAsync).attempt(2).on(&mut *conn).await.unwrap();
        let id = BuildReport { pages: 1 }.enqueue(&mut conn).await.unwrap();
        drain(&mut *conn).only::<BuildReport>().skip_time().run().await.unwrap();
        assert_eq!(BuildReport::output(&mut conn, id).await.unwrap().unwrap().unwrap().pages, 1);
    }};
}

fn manager(database: &Database) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(database.url())
}

#[tokio::test]
async fn the_objects_of_bb8_enqueue_and_are_tested() {
    let database = Database::create();
    let pool: bb8::Pool<AsyncPgConnection> = bb8::Pool::builder().max_size(1).build(manager(&database)).await.unwrap();
    a_pools_object_enqueues_and_is_tested!(pool);
}

#[tokio::test]
async fn the_objects_of_mobc_enqueue_and_are_tested() {
    let database = Database::create();
    let pool: mobc::Pool<AsyncPgConnection> = mobc::Pool::builder().max_open(1).build(manager(&database));
    a_pools_object_enqueues_and_is_tested!(pool);
}
