//! Runs the handler of the nightly report, inside a test transaction.

use axum_app::background::NightlyReport;
use axum_app::schema::reports;
use chrono::NaiveDate;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::testing::tick;

/// Orders around 29 March 2026 in Paris, a day of 23 hours: from 23:00 to 22:00 UTC.
const ORDERS: &str = "
    insert into customers (email, credit_cents) values ('ada@example.org', 0);
    insert into orders (customer_id, item, cents, placed_at)
    select customers.id, 'tea', cents, placed_at::timestamptz
    from customers, (values (1, '2026-03-28 22:59:59Z'), (20, '2026-03-28 23:00:00Z'), (300, '2026-03-29 12:00:00Z'),
                 (4000, '2026-03-29 21:59:59Z'), (50000, '2026-03-29 22:00:00Z')) o (cents, placed_at);";

#[diesel_jobs::test]
async fn it_counts_the_day_before_its_tick_and_may_be_repeated(conn: &mut AsyncPgConnection) {
    conn.batch_execute(ORDERS).await.unwrap();
    for _ in 0..2 {
        tick(NightlyReport, "2026-03-30 02:00").on(conn).await.unwrap();
    }
    let rows: Vec<(NaiveDate, i64, i64)> = reports::table.load(conn).await.unwrap();
    assert_eq!(rows, [(NaiveDate::from_ymd_opt(2026, 3, 29).unwrap(), 3, 4320)]);
}
