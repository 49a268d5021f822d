//! What the tests of several packages share: a database of a test's own, worker processes, waiting with a limit.
//!
//! PostgreSQL's tests need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod connection;
mod database;
mod postgres;
mod probe;
mod process;
mod worker;

use std::future::Future;
use std::time::Duration;

pub use connection::Conn;
pub use database::Db;
pub use postgres::{server, server_url_of};
pub use probe::{Event, Events, Probe};
pub use process::{Ended, Process};
pub use worker::Running;

/// The longest that any single thing a test waits for may take.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The longest a whole test may take.
const WHOLE: Duration = Duration::from_secs(150);

/// Runs one claim on a database of its own.
pub fn run<T: Future<Output = ()>>(db: impl Future<Output = Db>, claim: impl FnOnce(Db) -> T) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let db = db.await;
        tokio::time::timeout(WHOLE, claim(db)).await.expect("the test takes too long");
    });
    // A handler that never yields must not keep the test from ending.
    runtime.shutdown_background();
}

/// Waits for something that must come.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| panic!("waited {limit:?} in vain for {what}"))
}

/// Looks again and again until the look shows something. For what gives no signal: the rows of a database.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    within(LIMIT, what, async {
        loop {
            match look().await {
                Some(seen) => break seen,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
}

/// One `#[test]` per claim, an `async fn` over a [`Db`], on PostgreSQL.
#[macro_export]
macro_rules! on_postgres {
    ($($claim:ident),+ $(,)?) => {
        mod on_postgres {
            $(#[test] fn $claim() { $crate::run($crate::Db::postgres(), super::$claim); })+
        }
    };
}

/// One `#[test]` per claim, an `async fn` over a [`Db`], on SQLite.
#[macro_export]
macro_rules! on_sqlite {
    ($($claim:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $claim() { $crate::run($crate::Db::sqlite(), super::$claim); })+
        }
    };
}

/// Each claim on each database.
#[macro_export]
macro_rules! on_each_database {
    ($($claim:ident),+ $(,)?) => {
        $crate::on_postgres! { $($claim),+ }
        $crate::on_sqlite! { $($claim),+ }
    };
}

/// The registry of these jobs and no others.
#[macro_export]
macro_rules! registry {
    ($($job:ty),+ $(,)?) => { ::diesel_jobs::Registry::new()$(.with::<$job>())+ };
}
