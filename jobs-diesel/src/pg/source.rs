//! Where the URL and the credentials of new connections come from. Both may change while a worker runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_jobs_core::storage::StorageResult;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::target::Target;
use crate::credentials::AskCredentials;
use crate::url_source::UrlSource;

/// How many threads may wait for the file or the application's function at once. A function that never returns keeps
/// its thread.
const MOST_THREADS: usize = 16;

/// No `Debug`: it holds the password.
pub(crate) struct Source {
    url: UrlSource,
    credentials: Option<(AskCredentials, Handle)>,
    /// The URL that was read last, and what it says.
    last: Mutex<(String, Target)>,
    /// How often it has named another database.
    moves: AtomicU64,
    threads: Arc<Semaphore>,
}

impl Source {
    /// Reads the URL. A file that cannot be read is an error here, and later an error of a connection.
    pub(crate) fn new(url: UrlSource, credentials: Option<AskCredentials>) -> StorageResult<Self> {
        let text = url.read()?;
        let target = Target::of_url(&text).map_err(|problem| url.blamed(problem))?;
        // libpq's connections are opened on threads without a runtime.
        let credentials = credentials.map(|ask| (ask, Handle::current()));
        Ok(Self {
            url,
            credentials,
            last: Mutex::new((text, target)),
            moves: AtomicU64::new(0),
            threads: Arc::new(Semaphore::new(MOST_THREADS)),
        })
    }

    /// What the URL said last, without new credentials.
    pub(super) fn last(&self) -> Target {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// How often the URL has named another database than before.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Returns what a new connection needs. It reads the file and asks for credentials on a thread of its own, for
    /// which nothing waits at the end. An error is a text.
    pub(super) async fn current(self: &Arc<Self>, limit: Duration) -> Result<Target, String> {
        if let (UrlSource::Text(_), None) = (&self.url, &self.credentials) {
            return Ok(self.last());
        }
        let answered = async {
            let permit = self.threads.clone().acquire_owned().await.map_err(|error| error.to_string())?;
            let ((sender, answer), source, runtime) = (oneshot::channel(), self.clone(), Handle::current());
            let read = move || {
                // Nobody may wait for it any more.
                let _ = sender.send(source.read(&runtime));
                drop(permit);
            };
            let thread = std::thread::Builder::new().name("jobs-credentials".to_owned()).spawn(read);
            thread.map_err(|error| format!("starting the thread that asks for credentials: {error}"))?;
            answer.await.map_err(|error| error.to_string())?
        };
        let silent = |_| format!("there were no credentials for a new connection within {} s", limit.as_secs());
        tokio::time::timeout(limit, answered).await.map_err(silent)?
    }

    /// The same, on a thread that may block.
    #[cfg(feature = "postgres-sync")]
    pub(super) fn current_blocking(&self) -> Result<Target, String> {
        match &self.credentials {
            Some((_, runtime)) => self.read(runtime),
            None => self.of_url(),
        }
    }

    fn of_url(&self) -> Result<Target, String> {
        if let UrlSource::File(_) = &self.url {
            let text = self.url.read().map_err(|problem| problem.to_string())?;
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 != text {
                let target = Target::of_url(&text).map_err(|problem| self.url.blamed(problem).to_string())?;
                if target.place() != last.1.place() {
                    self.moves.fetch_add(1, Ordering::AcqRel);
                    tracing::warn!(
                        target: "diesel_jobs",
                        "the file with the database URL names another server or database: this process continues with \
                         that one"
                    );
                }
                *last = (text, target);
            }
        }
        Ok(self.last())
    }

    /// The function may use this runtime.
    fn read(&self, runtime: &Handle) -> Result<Target, String> {
        let mut target = self.of_url()?;
        if let Some((ask, _)) = &self.credentials {
            let _context = runtime.enter();
            let given = catch_unwind(AssertUnwindSafe(|| ask()))
                .unwrap_or_else(|_| Err("the function that returns them panicked".into()))
                .map_err(|problem| format!("the application has no credentials for a new connection: {problem}"))?;
            given.put_into(&mut target.config);
        }
        Ok(target)
    }
}
