//! The jobs, run on one connection inside a test transaction. There is no worker.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs::testing::{drain, perform, tick};
use rocket_app::background::{DemandBack, Remind};
use rocket_app::schema::{letters, loans};
use rocket_app::{NewLoan, give_back, lend};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

async fn lend_to_eve(conn: &mut AsyncPgConnection, book: &str) -> i64 {
    lend(conn, &NewLoan { book: book.to_owned(), reader: "Eve".to_owned() }, WEEK).await.unwrap()
}

/// The letters, in the order of their loans.
async fn written(conn: &mut AsyncPgConnection) -> Vec<(i64, String)> {
    letters::table.order(letters::loan_id).select((letters::loan_id, letters::kind)).load(conn).await.unwrap()
}

#[diesel_jobs::test]
async fn readers_are_reminded_of_what_they_have_not_returned(conn: &mut AsyncPgConnection) {
    let (kept, returned) = (lend_to_eve(conn, "Emma").await, lend_to_eve(conn, "Nana").await);
    give_back(conn, returned).await.unwrap();

    let report = drain(conn).run().await.unwrap();
    assert_eq!((report.ran.len(), report.waiting.len()), (0, 2), "too early\n{report}");
    drain(conn).skip_time().run().await.unwrap().assert_completed::<Remind>(2);
    assert_eq!(written(conn).await, [(kept, "reminder".to_owned())]);
}

#[diesel_jobs::test]
async fn overdue_books_are_demanded_back_once(conn: &mut AsyncPgConnection) {
    let (overdue, returned) = (lend_to_eve(conn, "Emma").await, lend_to_eve(conn, "Nana").await);
    let in_time = lend_to_eve(conn, "Middlemarch").await;
    give_back(conn, returned).await.unwrap();
    let at: DateTime<Utc> = "2026-06-01T05:00:00Z".parse().unwrap();
    diesel::update(loans::table).set(loans::due_at.eq(at - WEEK)).execute(conn).await.unwrap();
    diesel::update(loans::table.find(in_time)).set(loans::due_at.eq(at)).execute(conn).await.unwrap();

    let demand = |loan| (loan, "demand".to_owned());
    // By the clock of Paris.
    tick(DemandBack, "2026-06-01 07:00").on(conn).await.unwrap();
    assert_eq!(written(conn).await, [demand(overdue)]);
    for day in ["01", "08", "15"] {
        tick(DemandBack, &format!("2026-06-{day} 07:00")).on(conn).await.unwrap();
    }
    assert_eq!(written(conn).await, [demand(overdue), demand(in_time)]);
}

#[diesel_jobs::test]
async fn a_reminder_of_no_loan_fails(conn: &mut AsyncPgConnection) {
    perform(Remind { loan_id: 7 }).on(conn).await.unwrap_err();
    // The handler's savepoint was rolled back, and the transaction continues.
    conn.batch_execute("select from loans").await.unwrap();
}
