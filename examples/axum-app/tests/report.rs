//! Runs the nightly report as the worker does.

use axum_app::background::NightlyReport;
use axum_app::schema::reports;
use chrono::NaiveDate;
use diesel_async::RunQueryDsl;
use diesel_jobs::prelude::*;
use diesel_jobs::{Database, Registry, Worker};

use crate::support::Db;

/// Orders around 29 March 2026 in Paris, a day of 23 hours: from 23:00 to 22:00 UTC.
const ORDERS: &str = "
    insert into customers (email, credit_cents) values ('ada@example.org', 0);
    insert into orders (customer_id, item, cents, placed_at)
    select 1, 'tea', cents, placed_at::timestamptz
    from (values (1, '2026-03-28 22:59:59Z'), (20, '2026-03-28 23:00:00Z'), (300, '2026-03-29 12:00:00Z'),
                 (4000, '2026-03-29 21:59:59Z'), (50000, '2026-03-29 22:00:00Z')) o (cents, placed_at);";

#[tokio::test]
async fn it_counts_the_day_before_its_tick_and_may_be_repeated() {
    let db = Db::migrated().await;
    db.run(ORDERS).await;
    let mut conn = db.conn().await;
    for _ in 0..2 {
        let id = NightlyReport::new().enqueue(&mut conn).await.unwrap();
        // It is due now. A tick of the schedule would have this time.
        db.run(&format!("update jobs.ready set run_at = '2026-03-30 00:00:00Z' where id = {id}")).await;
        let database = Database::open(&db.url, 1).await.unwrap();
        let worker = Worker::builder(database.storage).registry(Registry::new().with::<NightlyReport>());
        assert_eq!(worker.build().unwrap().run_until_empty().await.unwrap().completed, 1);
    }
    let rows: Vec<(NaiveDate, i64, i64)> = reports::table.load(&mut conn).await.unwrap();
    assert_eq!(rows, [(NaiveDate::from_ymd_opt(2026, 3, 29).unwrap(), 3, 4320)]);
}
