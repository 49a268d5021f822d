//! An order and its jobs, on one connection inside a test transaction. There is no worker.

use std::time::Duration;

use axum_app::background::{Charge, SendMail};
use axum_app::schema::{ledger, mails, orders};
use axum_app::{Mailer, NewOrder, OrderError, connect, place_order};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::testing::drain;
use diesel_jobs::{assert_enqueued, refute_enqueued};

use crate::database::Db;

const REVIEW_AFTER: Duration = Duration::from_secs(60);

/// Adds a customer with a credit of 100 cents, and places an order.
async fn order(conn: &mut AsyncPgConnection, cents: i64) -> Result<i64, OrderError> {
    conn.batch_execute("insert into customers (email, credit_cents) values ('ada@example.org', 100)").await.unwrap();
    let order = NewOrder { customer: "ada@example.org".to_owned(), item: "tea".to_owned(), cents };
    place_order(conn, &order, REVIEW_AFTER).await
}

#[diesel_jobs::test]
async fn an_order_comes_with_its_jobs(conn: &mut AsyncPgConnection) {
    let id = order(conn, 60).await.unwrap();
    assert_enqueued!(conn, Charge { order_id: id }, queue = "billing", priority = 10, count = 1).await;
    let address = "ada@example.org";
    assert_enqueued!(conn, SendMail { order_id: id, address, template: "confirmation" }, queue = "mail", run_in = 0..1)
        .await;
    assert_enqueued!(conn, SendMail { order_id: id, address, template: "review" }, run_in = 50..=60).await;
    assert_enqueued!(conn, SendMail, count = 2).await;
}

#[diesel_jobs::test]
async fn a_refused_payment_leaves_nothing(conn: &mut AsyncPgConnection) {
    let refused = order(conn, 101).await;
    assert!(matches!(refused, Err(OrderError::PaymentRefused)), "{refused:?}");
    refute_enqueued!(conn, Charge).await;
    refute_enqueued!(conn, SendMail).await;
    assert_eq!(orders::table.count().get_result::<i64>(conn).await.unwrap(), 0);
}

#[tokio::test]
async fn its_jobs_charge_it_once_and_send_two_mails() {
    let db = Db::migrated().await;
    let mut conn = db.test_conn().await;
    let id = order(&mut conn, 60).await.unwrap();
    // The mailer has connections of its own, as a provider is outside of every transaction.
    let mailer = Mailer::new(connect(db.url(), 1).unwrap());
    let report = drain(&mut conn).state(mailer).skip_time().run().await.unwrap();
    report.assert_completed::<Charge>(1);
    report.assert_completed::<SendMail>(2);
    let booked: Vec<(i64, i64)> =
        ledger::table.select((ledger::order_id, ledger::cents)).load(&mut conn).await.unwrap();
    assert_eq!(booked, [(id, 60)]);
    let sent = mails::table.order(mails::template).select((mails::template, mails::submissions));
    let sent: Vec<(String, i32)> = sent.load(&mut db.conn().await).await.unwrap();
    assert_eq!(sent, [("confirmation".to_owned(), 1), ("review".to_owned(), 1)]);
}
