//! Unique keys under `repeatable read` and `serializable`: pipelined, in SQL, and beside an open transaction.

use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::{NewJob, Unique};
use diesel_jobs_storage::Enqueue as _;

use super::Postgres;
use crate::fixture::run;

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];

fn of(user: &str) -> NewJob {
    NewJob::raw("a", format!(r#"{{"user":"{user}"}}"#)).unique(Unique::new().by(&["user"])).unwrap()
}

async fn session(f: &Postgres) -> AsyncPgConnection {
    AsyncPgConnection::establish(&f.url).await.unwrap()
}

#[test]
fn pipelined_enqueues_say_that_the_transaction_is_to_be_repeated() {
    run::<Postgres, _>(async |f: Postgres| {
        for level in LEVELS {
            let mut one = session(&f).await;
            one.batch_execute(&format!("begin isolation level {level}; select count(*) from jobs.job")).await.unwrap();
            let existing = of(level).enqueue(&mut session(&f).await).await.unwrap();
            let (mut first, mut second) = (&one, &one);
            let (first, second) = futures_util::join!(of(level).enqueue(&mut first), of("other").enqueue(&mut second));
            let refused = first.unwrap_err();
            assert!(refused.is_retryable(), "{refused}");
            second.expect_err("the transaction is aborted");
            one.batch_execute(&format!("rollback; begin isolation level {level}")).await.unwrap();
            let again = of(level).enqueue(&mut &one).await.unwrap();
            assert!(again.is_existing() && again == existing.id());
            one.batch_execute("commit").await.unwrap();
        }
    });
}

/// In SQL it is the server's own error, which has the code that programs repeat transactions for.
#[test]
fn sql_gets_a_serialization_failure() {
    run::<Postgres, _>(async |f: Postgres| {
        let mut one = session(&f).await;
        for (number, options) in [
            "",
            ", on_conflict => 'replace'",
            ", on_conflict => 'run_again'",
            ", on_conflict => 'error'",
            ", concurrency => 3",
            ", expires => '1 hour'",
        ]
        .into_iter()
        .enumerate()
        {
            for level in LEVELS {
                let enqueue =
                    format!("select jobs.enqueue('a', '[{number}, \"{level}\"]', unique_by => '{{}}'{options})");
                one.batch_execute(&format!("begin isolation level {level}; select count(*) from jobs.job"))
                    .await
                    .unwrap();
                session(&f).await.batch_execute(&enqueue).await.unwrap();
                let refused = one.batch_execute(&enqueue).await.unwrap_err();
                let is_serialization =
                    matches!(&refused, Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _));
                assert!(is_serialization, "{options}: {refused:?}");
                one.batch_execute("rollback").await.unwrap();
            }
        }
    });
}

/// Nothing is to be repeated if the other transaction rolls back, or had committed before this one began to read.
#[test]
fn other_transactions_do_not_get_in_the_way() {
    run::<Postgres, _>(async |f: Postgres| {
        for level in LEVELS {
            let (mut one, mut other) = (session(&f).await, session(&f).await);
            let existing = of(level).enqueue(&mut other).await.unwrap();
            one.batch_execute(&format!("begin isolation level {level}; select count(*) from jobs.job")).await.unwrap();
            let found = of(level).enqueue(&mut one).await.unwrap();
            assert!(found.is_existing() && found == existing.id());
            other.batch_execute("begin").await.unwrap();
            let key = format!("{level}, rolled back");
            of(&key).enqueue(&mut other).await.unwrap();
            let waiting = tokio::spawn(async move { (of(&key).enqueue(&mut one).await, one) });
            super::unique_keys::one_waits(&f).await;
            other.batch_execute("rollback").await.unwrap();
            let (enqueued, mut one) = waiting.await.unwrap();
            assert!(enqueued.unwrap().is_new());
            one.batch_execute("commit").await.unwrap();
        }
    });
}
