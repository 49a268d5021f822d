//! A database, processes and an HTTP client for one test.

mod client;
mod database;
mod process;

use std::time::Duration;

pub(crate) use client::Client;
pub(crate) use database::{Db, number};
pub(crate) use process::Process;

/// The time limit of each wait in a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Calls `look` repeatedly until it returns something, which must happen. It is for what sends no signal, such as rows
/// in a database.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    seen(look).await.unwrap_or_else(|| panic!("waited {LIMIT:?} in vain for {what}"))
}

/// The same, but returns `None` if it does not happen within the limit.
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
