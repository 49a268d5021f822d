//! A database, processes and an HTTP client for one test.

mod client;
mod database;
mod process;

use std::time::Duration;

pub(crate) use client::Client;
pub(crate) use database::{Db, number};
pub(crate) use process::Process;

/// The longest that any single thing a test waits for may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Looks again and again until the look shows something that must come. For what gives no signal: a database's rows.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    seen(look).await.unwrap_or_else(|| panic!("waited {LIMIT:?} in vain for {what}"))
}

/// The same for what may fail to come.
pub(crate) async fn seen<T>(mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let looks = async {
        loop {
            match look().await {
                Some(seen) => break seen,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, looks).await.ok()
}
