//! Waiting for what sends no signal, such as rows in a database.

use std::time::Duration;

/// The time limit of each wait in a test. It only guards against hanging: a busy machine takes its time.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Calls `check` repeatedly until it returns something, which must happen within the limit.
pub async fn until<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> T {
    try_until(check).await.unwrap_or_else(|| panic!("waited {LIMIT:?}, and this did not happen: {what}"))
}

/// The same, but returns `None` if it does not happen within the limit.
pub async fn try_until<T>(mut check: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let checks = async {
        loop {
            match check().await {
                Some(seen) => break seen,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, checks).await.ok()
}
