//! Shared by the tests of several packages: databases, worker processes, and waiting with a limit.
//!
//! PostgreSQL's tests need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod connection;
mod database;
mod postgres;
mod probe;
mod process;
mod rounds;
mod worker;

use std::future::Future;
use std::time::Duration;

pub use connection::Conn;
pub use database::Db;
pub use postgres::{server, server_url_of};
pub use probe::{Event, Events, Probe};
pub use process::{Ended, Process};
pub use rounds::Rounds;
pub use worker::Running;

/// The time limit of each wait in a test. It only keeps a test from hanging. Busy machines need much longer than quiet
/// ones.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The time limit of a whole test.
const WHOLE: Duration = Duration::from_secs(600);

/// Runs one test on a database of its own.
pub fn run<T: Future<Output = ()>>(db: impl Future<Output = Db>, claim: impl FnOnce(Db) -> T) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let db = db.await;
        tokio::time::timeout(WHOLE, claim(db)).await.expect("the test takes too long");
    });
    // A handler that never yields must not keep the runtime from ending.
    runtime.shutdown_background();
}

/// Waits for a future, and panics after `limit`.
pub async fn within<T>(limit: Duration, what: &str, future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| panic!("waited {limit:?}, and this did not happen: {what}"))
}

/// Calls `check` repeatedly until it returns something. It is for what sends no signal, such as rows in a database.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    within(LIMIT, what, async {
        loop {
            match check().await {
                Some(seen) => break seen,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
}

/// Makes one `#[test]` per function on PostgreSQL. A function is an `async fn` with a [`Db`].
#[macro_export]
macro_rules! on_postgres {
    ($($claim:ident),+ $(,)?) => {
        mod on_postgres {
            $(#[test] fn $claim() { $crate::run($crate::Db::postgres(), super::$claim); })+
        }
    };
}

/// Makes one `#[test]` per function on SQLite. A function is an `async fn` with a [`Db`].
#[macro_export]
macro_rules! on_sqlite {
    ($($claim:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $claim() { $crate::run($crate::Db::sqlite(), super::$claim); })+
        }
    };
}

/// Makes the tests of each function on each database.
#[macro_export]
macro_rules! on_each_database {
    ($($claim:ident),+ $(,)?) => {
        $crate::on_postgres! { $($claim),+ }
        $crate::on_sqlite! { $($claim),+ }
    };
}

/// Makes a registry of these jobs only.
#[macro_export]
macro_rules! registry {
    ($($job:ty),+ $(,)?) => { ::diesel_jobs::worker::Registry::new()$(.with::<$job>())+ };
}
