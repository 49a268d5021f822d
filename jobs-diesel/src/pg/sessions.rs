//! Whether a session keeps its state for the next transaction of the same connection. Behind a pooler in transaction
//! mode it does not: the next transaction of another client gets that session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool::managed::Object;
use diesel::QueryResult;
use diesel::result::Error as DieselError;
use diesel_jobs_core::storage::StorageResult;
use tokio::sync::OnceCell;

use super::queries::{complete_in, session};
use super::{PgStorage, STATEMENT_LIMIT};

/// Shared by all connectors of one storage.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<OnceCell<AtomicBool>>);

impl Sessions {
    /// Finds out once whether sessions are kept. Before that, no state is left in any session.
    pub(crate) async fn learn(&self, storage: &PgStorage) -> StorageResult<()> {
        let ask = async || {
            let (mut one, mut other) = (storage.connection().await?, storage.connection().await?);
            let answer = tokio::time::timeout(
                storage.stopwatch().limit(STATEMENT_LIMIT),
                session::are_shared(&mut one, &mut other),
            )
            .await;
            if !matches!(answer, Ok(Ok(_))) {
                // `settle` handles the first connection.
                drop(Object::take(other));
            }
            let are_shared = storage.settle("sessions", one, answer)?;
            Ok(AtomicBool::new(!are_shared))
        };
        self.0.get_or_try_init(ask).await.map(drop)
    }

    /// Whether statements may be prepared for later transactions.
    pub(crate) fn are_kept(&self) -> bool {
        self.0.get().is_some_and(|kept| kept.load(Ordering::Acquire))
    }

    /// Records that sessions are not kept: a pooler was not noticed, or the application clears its sessions.
    pub(crate) fn are_not_kept(&self) {
        if let Some(kept) = self.0.get() {
            kept.store(false, Ordering::Release);
        }
    }

    /// The result of [`complete_in::prepare`]. If a session already has these statements, other clients use it, too.
    pub(crate) fn are_prepared(&self, answer: QueryResult<()>) -> QueryResult<()> {
        match answer {
            Err(DieselError::DatabaseError(_, info)) if complete_in::says_not_prepared(info.message()) => {
                self.are_not_kept();
                Ok(())
            }
            answer => answer,
        }
    }
}
