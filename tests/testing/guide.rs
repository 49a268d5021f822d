//! The code of the guide's page on testing. A test below compares the page with this file.

// begin app
use diesel::prelude::*;
use diesel_jobs::EnqueueError;
use diesel_jobs::prelude::*;

#[derive(Clone)]
struct Mailer;

#[job(queue = "mail")]
async fn send_receipt(order_id: i64, State(_mailer): State<Mailer>) -> Result<(), JobError> {
    if order_id < 0 { Err(JobError::msg("no such order").fatal()) } else { Ok(()) }
}

#[job(max_attempts = 5)]
fn charge_card(order_id: i64, ctx: &JobContext, conn: &mut SqliteConnection) -> Result<(), EnqueueError> {
    if ctx.attempt() == 1 {
        return Err(diesel::result::Error::NotFound.into());
    }
    SendReceipt { order_id }.enqueue(conn)?;
    Ok(())
}

fn place_order(conn: &mut SqliteConnection, order_id: i64) -> Result<(), EnqueueError> {
    ChargeCard { order_id }.delay(std::time::Duration::from_secs(60)).enqueue(conn)?;
    Ok(())
}
// end app

// begin sync
#[cfg(test)]
mod sync_tests {
    use diesel::prelude::*;
    use diesel_jobs::testing::{drain, perform};
    use diesel_jobs::{assert_enqueued, refute_enqueued};

    use super::*;

    fn connection() -> SqliteConnection {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        diesel_jobs::migrate(&mut conn).unwrap();
        conn.begin_test_transaction().unwrap();
        conn
    }

    #[test]
    fn an_order_is_charged_after_a_minute() {
        let mut conn = connection();
        place_order(&mut conn, 7).unwrap();
        assert_enqueued!(conn, ChargeCard { order_id: 7 }, run_in = 50..=60, count = 1);
        refute_enqueued!(conn, SendReceipt { .. });
    }

    #[test]
    fn a_failed_charge_is_repeated_and_the_receipt_follows() {
        let mut conn = connection();
        place_order(&mut conn, 7).unwrap();
        let report = drain(&mut conn).state(Mailer).skip_time().run().unwrap();
        report.assert_completed::<ChargeCard>(1);
        report.assert_completed::<SendReceipt>(1);
        assert_eq!(report.ran.len(), 3, "{report}");
    }

    #[test]
    fn a_receipt_for_an_unknown_order_fails() {
        let error = perform(SendReceipt { order_id: -1 }).state(Mailer).on(&mut connection()).unwrap_err();
        assert!(error.is_fatal());
    }
}
// end sync

// begin async
#[cfg(test)]
mod async_tests {
    use diesel_async::{AsyncConnection as _, AsyncPgConnection};
    use diesel_jobs::assert_enqueued;
    use diesel_jobs::testing::{TestDatabase, drain, enqueued};

    use super::*;

    #[tokio::test]
    async fn receipts_are_sent() -> Result<(), Box<dyn std::error::Error>> {
        // Creates a database with the migrations' tables, on the server of TEST_DATABASE_URL or DATABASE_URL.
        let database = TestDatabase::builder().migrations("examples/axum-app/migrations").create().await?;
        let mut conn = AsyncPgConnection::establish(database.url()).await?;
        conn.begin_test_transaction().await?;

        SendReceipt { order_id: 7 }.enqueue(&mut conn).await?;
        assert_enqueued!(conn, SendReceipt { order_id: 7 }, queue = "mail").await;
        assert_eq!(enqueued::<SendReceipt, _>(&mut conn).await?.len(), 1);

        let report = drain(&mut conn).state(Mailer).run().await?;
        report.assert_completed::<SendReceipt>(1);
        Ok(())
    }
}
// end async

// begin short
#[cfg(test)]
mod short_tests {
    use diesel_jobs::testing::Ended::{Completed, Retried};

    use super::*;

    #[diesel_jobs::test]
    fn a_charge_is_repeated(conn: &mut SqliteConnection) {
        place_order(conn, 7).unwrap();
        let report = diesel_jobs::testing::drain(conn).state(Mailer).skip_time().run().unwrap();
        report.assert_ran::<ChargeCard>([Retried, Completed]);
    }

    #[diesel_jobs::test(migrations = "examples/axum-app/migrations")]
    async fn a_receipt_waits(conn: &mut diesel_async::AsyncPgConnection) -> Result<(), Box<dyn std::error::Error>> {
        SendReceipt { order_id: 7 }.enqueue(conn).await?;
        diesel_jobs::assert_enqueued!(conn, SendReceipt { order_id: 7 }).await;
        Ok(())
    }
}
// end short

// begin inline
#[cfg(test)]
mod inline_tests {
    use diesel::prelude::*;
    use diesel_jobs::testing::drain;

    use super::*;

    /// Calls code of the application, then runs the jobs that it has enqueued, and those that these jobs enqueue.
    fn inline<T>(conn: &mut SqliteConnection, code: impl FnOnce(&mut SqliteConnection) -> T) -> T {
        let result = code(conn);
        let report = drain(conn).state(Mailer).skip_time().run().unwrap();
        assert!(report.waiting.is_empty(), "{report}");
        result
    }

    #[diesel_jobs::test]
    fn a_placed_order_is_charged_and_its_receipt_is_sent(conn: &mut SqliteConnection) {
        inline(conn, |conn| place_order(conn, 7)).unwrap();
        diesel_jobs::refute_enqueued!(conn, SendReceipt { .. });
    }
}
// end inline

// begin crash
#[cfg(test)]
mod crash_tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use diesel::connection::SimpleConnection as _;
    use diesel::prelude::*;
    use diesel_jobs::prelude::*;
    use diesel_jobs::testing::crash_everywhere;

    /// A fake of the provider. It takes a payment with the same key only once.
    #[derive(Clone, Default)]
    struct Provider(Arc<Mutex<BTreeSet<String>>>);

    #[job]
    fn pay(order_id: i64, conn: &mut SqliteConnection, State(provider): State<Provider>) -> QueryResult<()> {
        diesel::sql_query("insert into payment (state) values ('begun')").execute(conn)?;
        provider.0.lock().unwrap().insert(format!("order-{order_id}"));
        diesel::sql_query("update payment set state = 'paid'").execute(conn).map(drop)
    }

    #[test]
    fn a_crash_pays_no_order_twice() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        diesel_jobs::migrate(&mut conn).unwrap();
        conn.batch_execute("create table payment (state text not null)").unwrap();
        let crashes = crash_everywhere(Pay { order_id: 7 })
            .state_with(Provider::default)
            .observe(|provider: &Provider| provider.0.lock().unwrap().clone());
        assert_eq!(crashes.on(&mut conn).unwrap(), 2);
    }
}
// end crash

/// The text between two marks of a file.
pub(crate) fn part(file: &'static str, name: &str) -> &'static str {
    let (begin, end) = (format!("// begin {name}\n"), format!("// end {name}\n"));
    let text = file.split_once(&begin).unwrap().1;
    text.split_once(&end).unwrap().0.trim_end()
}

#[test]
fn the_guide_shows_this_code() {
    let page = include_str!("../../docs/guide/testing.md");
    for name in ["app", "sync", "async", "short", "inline", "crash"] {
        let part = part(include_str!("guide.rs"), name);
        assert!(page.contains(&format!("```rust\n{part}\n```")), "docs/guide/testing.md: {name}");
    }
}

#[test]
fn the_page_on_testing_shows_real_outputs() {
    let mut conn = SqliteConnection::establish(":memory:").unwrap();
    diesel_jobs::migrate(&mut conn).unwrap();
    place_order(&mut conn, 7).unwrap();
    SendReceipt { order_id: 7 }.enqueue(&mut conn).unwrap();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        diesel_jobs::assert_enqueued!(conn, ChargeCard { order_id: 8 }, queue = "slow");
    }));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    crate::page::Page::read("docs/guide/testing.md").compare(|_| message.clone());
}

/// Takes every payment.
#[derive(Clone, Default)]
struct Payments(std::sync::Arc<std::sync::Mutex<Vec<i64>>>);

#[job]
fn pay_always(order_id: i64, conn: &mut SqliteConnection, State(payments): State<Payments>) -> QueryResult<()> {
    diesel::sql_query("insert into payment (state) values ('begun')").execute(conn)?;
    payments.0.lock().unwrap().push(order_id);
    diesel::sql_query("update payment set state = 'paid'").execute(conn).map(drop)
}

#[test]
fn the_page_on_testing_quotes_a_real_message_of_a_crash() {
    let mut conn = SqliteConnection::establish(":memory:").unwrap();
    diesel_jobs::migrate(&mut conn).unwrap();
    diesel::sql_query("create table payment (state text not null)").execute(&mut conn).unwrap();
    let crashes = diesel_jobs::testing::crash_everywhere(PayAlways { order_id: 7 })
        .state_with(Payments::default)
        .observe(|payments: &Payments| payments.0.lock().unwrap().clone());
    let real = crashes.on(&mut conn).unwrap_err().to_string().replace("`pay_always`", "`pay`");
    let page = std::fs::read_to_string(crate::page::root().join("docs/guide/testing.md")).unwrap();
    let (_, rest) = page.split_once("this text:\n``").unwrap();
    let (quoted, _) = rest.split_once("``.\n").unwrap();
    assert!(real.contains(quoted) && real.contains("[7]") && real.contains("[7, 7]"), "{real}");
}
