//! One connection that its users check out one after the other. A checkout runs and ends on the blocking pool. So no
//! thread of the runtime waits for one. And if a handler blocks the runtime, the heartbeat still gets the connection.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager, TransactionManagerStatus};
use diesel::{QueryResult, SqliteConnection};
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;
use tokio::task::spawn_blocking;

use crate::error::storage_error;
use crate::sqlite::connect::{BUSY_TIMEOUT, DURABLE, LAZY, connect};
use crate::sqlite::place::{Opened, Place, gone};

/// One connection, opened at its first use. One user at a time has it.
pub(super) struct SharedConnection {
    file: Arc<str>,
    place: Place,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    taken: bool,
    idle: Option<SqliteConnection>,
    /// The file that was opened last.
    opened: Option<Opened>,
}

/// A checkout of the connection. Only [`check_in`](Checkout::check_in) keeps the connection open. Otherwise it is
/// closed, for example after a panic. This rolls back an open transaction.
pub(super) struct Checkout<'s> {
    shared: &'s SharedConnection,
    conn: Option<SqliteConnection>,
    opened: Option<Opened>,
}

impl SharedConnection {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self { place: Place::of(&file), file, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits until no other thread uses the connection. Returns `None` if `timeout` passes before that.
    pub(super) fn check_out(&self, timeout: Duration) -> Option<Checkout<'_>> {
        let (mut state, waited) = self
            .freed
            .wait_timeout_while(self.lock(), timeout, |state| state.taken)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && state.taken {
            return None;
        }
        state.taken = true;
        Some(Checkout { shared: self, conn: state.idle.take(), opened: state.opened })
    }

    /// Runs `work` with the connection. Fails with `Unavailable` if the connection was not free within
    /// [`BUSY_TIMEOUT`].
    pub(super) async fn run<T, F>(self: &Arc<Self>, work: F) -> StorageResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> StorageResult<T> + Send + 'static,
    {
        let shared = Arc::clone(self);
        let task = spawn_blocking(move || {
            let mut checkout = shared.check_out(BUSY_TIMEOUT).ok_or_else(|| {
                StorageError::Unavailable(
                    format!(
                        "another transaction of this process has held SQLite's only writer for {} s; transactional \
                         handlers on SQLite must be short",
                        BUSY_TIMEOUT.as_secs()
                    )
                    .into(),
                )
            })?;
            // After an error the state of the connection is unknown, so it is closed. A new one costs a millisecond.
            let done = work(checkout.connection()?)?;
            checkout.check_in();
            Ok(done)
        });
        task.await.unwrap_or_else(|error| Err(StorageError::Unavailable(Box::new(error))))
    }

    /// Runs `statements`, which only read, in one transaction. They see one state of the file and block no other
    /// session.
    pub(super) async fn read<T, F>(self: &Arc<Self>, statements: F) -> StorageResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> QueryResult<T> + Send + 'static,
    {
        self.run(|conn| diesel::Connection::transaction(conn, statements).map_err(storage_error)).await
    }

    /// Runs `statements` in one transaction that holds the write lock from its beginning. So it cannot fail half-way
    /// because another process wrote between its reads and its writes.
    pub(super) async fn write<T, F>(self: &Arc<Self>, statements: F) -> StorageResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> QueryResult<T> + Send + 'static,
    {
        self.run(|conn| conn.immediate_transaction(statements).map_err(storage_error)).await
    }

    /// Like [`write`](Self::write), but the commit does not wait for the disk.
    pub(super) async fn write_lazily<T, F>(self: &Arc<Self>, statements: F) -> StorageResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> QueryResult<T> + Send + 'static,
    {
        self.run(|conn| {
            conn.batch_execute(LAZY).map_err(storage_error)?;
            let done = conn.immediate_transaction(statements).map_err(storage_error);
            conn.batch_execute(DURABLE).map_err(storage_error)?;
            done
        })
        .await
    }

    // No foreign code runs under the lock, so there is no panic while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checkout<'_> {
    /// Returns the connection. Opens a new one if none is open, or if the file was replaced. Fails if the file was
    /// deleted or moved away.
    pub(super) fn connection(&mut self) -> StorageResult<&mut SqliteConnection> {
        let there = self.shared.place.there();
        if self.opened.is_some() && there != self.opened {
            // No other process would read what this connection writes to a file without a name.
            drop(self.conn.take());
            if there.is_none() {
                return Err(gone(&self.shared.file));
            }
            tracing::warn!(target: "diesel_jobs", "the SQLite file {} was replaced: this process continues with the new one", self.shared.file);
        }
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => connect(&self.shared.file)?,
        };
        self.opened = there.or_else(|| self.shared.place.there());
        self.shared.lock().opened = self.opened;
        Ok(self.conn.insert(conn))
    }

    /// Keeps the connection open for the next checkout. Closes it if it is still in a transaction.
    pub(super) fn check_in(mut self) {
        if self.conn.as_mut().is_some_and(is_idle) {
            self.shared.lock().idle = self.conn.take();
        }
    }
}

impl Drop for Checkout<'_> {
    fn drop(&mut self) {
        // The connection is closed before the next checkout begins, because that one would wait for an open
        // transaction.
        drop(self.conn.take());
        self.shared.lock().taken = false;
        self.shared.freed.notify_one();
    }
}

fn is_idle(conn: &mut SqliteConnection) -> bool {
    match AnsiTransactionManager::transaction_manager_status_mut(conn) {
        TransactionManagerStatus::Valid(status) => status.transaction_depth().is_none(),
        TransactionManagerStatus::InError => false,
    }
}
