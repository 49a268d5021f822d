//! The jobs, run on one connection inside a test transaction. There is no worker.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::testing::{drain, perform};
use rocket_app::background::{DemandBack, Remind};
use rocket_app::schema::{letters, loans};
use rocket_app::{NewLoan, give_back, lend};

use crate::database::{connection, database};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

async fn lend_to_eve(conn: &mut AsyncPgConnection, book: &str) -> i64 {
    lend(conn, &NewLoan { book: book.to_owned(), reader: "Eve".to_owned() }, WEEK).await.unwrap()
}

/// The letters, in the order of their loans.
async fn written(conn: &mut AsyncPgConnection) -> Vec<(i64, String)> {
    letters::table.order(letters::loan_id).select((letters::loan_id, letters::kind)).load(conn).await.unwrap()
}

#[tokio::test]
async fn readers_are_reminded_of_what_they_have_not_returned() {
    let database = database().await;
    let mut conn = connection(&database).await;
    conn.begin_test_transaction().await.unwrap();
    let (kept, returned) = (lend_to_eve(&mut conn, "Emma").await, lend_to_eve(&mut conn, "Nana").await);
    give_back(&mut conn, returned).await.unwrap();

    let report = drain(&mut conn).run().await.unwrap();
    assert_eq!((report.ran.len(), report.waiting.len()), (0, 2), "too early\n{report}");
    drain(&mut conn).skip_time().run().await.unwrap().assert_completed::<Remind>(2);
    assert_eq!(written(&mut conn).await, [(kept, "reminder".to_owned())]);
}

#[tokio::test]
async fn overdue_books_are_demanded_back_once() {
    let database = database().await;
    let mut conn = connection(&database).await;
    conn.begin_test_transaction().await.unwrap();
    let (overdue, returned) = (lend_to_eve(&mut conn, "Emma").await, lend_to_eve(&mut conn, "Nana").await);
    let in_time = lend_to_eve(&mut conn, "Middlemarch").await;
    give_back(&mut conn, returned).await.unwrap();
    let tick: DateTime<Utc> = "2026-06-01T05:00:00Z".parse().unwrap();
    diesel::update(loans::table).set(loans::due_at.eq(tick - WEEK)).execute(&mut conn).await.unwrap();
    diesel::update(loans::table.find(in_time)).set(loans::due_at.eq(tick)).execute(&mut conn).await.unwrap();

    let demand = |loan| (loan, "demand".to_owned());
    perform(DemandBack).run_at(tick).on(&mut conn).await.unwrap();
    assert_eq!(written(&mut conn).await, [demand(overdue)]);
    for tick in [tick, tick + WEEK, tick + 2 * WEEK] {
        perform(DemandBack).run_at(tick).on(&mut conn).await.unwrap();
    }
    assert_eq!(written(&mut conn).await, [demand(overdue), demand(in_time)]);
}

#[tokio::test]
async fn a_reminder_of_no_loan_fails() {
    let database = database().await;
    let mut conn = connection(&database).await;
    conn.begin_test_transaction().await.unwrap();
    perform(Remind { loan_id: 7 }).on(&mut conn).await.unwrap_err();
    // The handler's savepoint was rolled back, and the transaction goes on.
    conn.batch_execute("select from loans").await.unwrap();
}
