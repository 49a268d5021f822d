//! The probes of the dashboard, `/livez` and `/readyz`. They ask for no token, because what sends them has none. So the
//! answers say nothing about the database but whether it can be used, and requests put no load on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get;
use diesel_jobs_core::storage::{Storage, StorageResult};
use diesel_jobs_core::{HealthCheck, Installation, StorageError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::cli::probe::{checked, log};

/// How long the database may take to answer.
const LIMIT: Duration = Duration::from_secs(2);
/// How long an answer of the database counts.
const KEPT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Probes {
    storage: Arc<dyn Storage>,
    /// Whether a server that takes no writes is enough.
    read_only: bool,
    last: Arc<Last>,
}

impl Probes {
    pub(super) fn new(storage: Arc<dyn Storage>, read_only: bool) -> Self {
        Self { storage, read_only, last: Arc::default() }
    }

    /// Answers probes, and leaves all other requests to the pages.
    pub(super) fn before(self, pages: Router) -> Router {
        Router::new()
            .route("/livez", get(async |uri: Uri| checked(&[log()], &uri)))
            .route("/readyz", get(ready))
            .with_state(self)
            .fallback_service(pages)
    }

    async fn ask(self) -> HealthCheck {
        let Self { storage, read_only, last } = self;
        last.unless_recent(async { database(timeout(LIMIT, storage.check_schema()).await.ok(), read_only) }).await
    }
}

async fn ready(State(probes): State<Probes>, uri: Uri) -> axum::http::Response<String> {
    // In a task of its own: a client that goes away must not end the statement and close its connection, because the
    // next one would open another and send it again.
    let asked = tokio::spawn(probes.ask()).await;
    checked(&[asked.unwrap_or_else(|_| failed("the check has failed"))], &uri)
}

/// The newest answer, and since when it is known.
#[derive(Default)]
struct Last(Mutex<Option<(Instant, HealthCheck)>>);

impl Last {
    /// Returns the newest answer, or asks if it is too old. Whoever comes meanwhile waits for the same answer.
    async fn unless_recent(&self, ask: impl Future<Output = HealthCheck>) -> HealthCheck {
        let mut last = self.0.lock().await;
        match &*last {
            Some((since, check)) if since.elapsed() < KEPT => check.clone(),
            _ => {
                let check = ask.await;
                *last = Some((Instant::now(), check.clone()));
                check
            }
        }
    }
}

/// Judges the answer of the database, if there was one in time. The text of an error may name hosts, users and tables.
fn database(answer: Option<StorageResult<Installation>>, read_only: bool) -> HealthCheck {
    match answer {
        None => failed("the database has not answered in time"),
        Some(Err(StorageError::Schema(_))) => failed("the schema is not that of this program"),
        Some(Err(error)) if error.is_transient() => failed("the database cannot be reached"),
        Some(Err(_)) => failed("the database refuses to be read"),
        Some(Ok(installation)) if installation.standby && !read_only => {
            failed("the server is a standby, which takes no writes")
        }
        Some(Ok(_)) => HealthCheck::new("database", true, "the database answers"),
    }
}

fn failed(reason: &str) -> HealthCheck {
    HealthCheck::new("database", false, reason)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_database_is_asked_once_a_second_at_most() {
        let (last, asked) = (Last::default(), Cell::new(0));
        let ask = || {
            last.unless_recent(async {
                tokio::task::yield_now().await;
                asked.set(asked.get() + 1);
                failed("no")
            })
        };
        tokio::join!(ask(), ask(), ask());
        tokio::time::advance(KEPT - Duration::from_millis(1)).await;
        ask().await;
        assert_eq!(asked.get(), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        ask().await;
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn a_reason_repeats_no_text_of_the_database() {
        let secret = || "role \"app\" at db.local".to_owned();
        let errors = [
            StorageError::Unavailable(secret().into()),
            StorageError::Credentials(secret().into()),
            StorageError::Refused(secret().into()),
            StorageError::Schema(secret()),
            StorageError::Config(secret()),
        ];
        for error in errors {
            let check = database(Some(Err(error)), true);
            assert!(!check.passed && !check.detail.contains("app"), "{check:?}");
        }
        assert!(!database(None, true).passed);
        assert!(database(Some(Ok(Installation::default())), false).passed);
    }
}
