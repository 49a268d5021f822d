//! `transact`: a handler inside the transaction that finishes its job.
//!
//! The finish is the transaction's last statement: it takes the row of `jobs.running` only then, so that a rescue never
//! waits for a handler, and it names the lease, so that a handler that was too slow rolls back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::result::Error as DieselError;
use diesel_async::pooled_connection::deadpool::Object;
use diesel_async::{AsyncConnection, AsyncPgConnection};
use jobs_core::__private::crash_point;
use jobs_core::storage::{Body, Transacted, Transaction};
use jobs_core::{AnyConnection, Finish, JobError, Transition};

use super::queries::finish;
use super::{PgStorage, no_connection};
use crate::error::storage_error;

/// PostgreSQL takes nothing more from a transaction after an error, so nothing of the handler's could be committed.
const SWALLOWED: &str = "the handler went on after a statement failed in its transaction, so everything was rolled back; \
    return the error, or run what may fail inside `conn.transaction(..)`, which makes a savepoint";

/// Why a transaction was rolled back.
enum Rollback {
    Handler(JobError),
    LeaseLost,
    #[cfg(feature = "postgres-sync")]
    Aborted,
    Database(DieselError),
}

impl From<DieselError> for Rollback {
    fn from(error: DieselError) -> Self {
        match &error {
            // The finish is the first statement of ours after the handler: the error behind this one was the handler's.
            DieselError::DatabaseError(_, info) if info.message().starts_with("current transaction is aborted") => {
                Self::Handler(JobError::msg(SWALLOWED))
            }
            _ => Self::Database(error),
        }
    }
}

fn transacted(ended: Result<Transition, Rollback>) -> Transacted {
    match ended {
        Ok(transition) => Transacted::Committed(transition),
        Err(Rollback::Handler(error)) => Transacted::RolledBack(error),
        Err(Rollback::LeaseLost) => Transacted::LeaseLost,
        #[cfg(feature = "postgres-sync")]
        Err(Rollback::Aborted) => Transacted::Aborted,
        Err(Rollback::Database(error)) => Transacted::Unknown(storage_error(error)),
    }
}

pub(crate) async fn transact(storage: &PgStorage, transaction: Transaction) -> Transacted {
    let Transaction { lease, body, abort, .. } = transaction;
    let body = match body {
        Body::Async(body) => body,
        #[cfg(feature = "postgres-sync")]
        Body::Blocking(body) => return blocking::transact(storage, lease, body, abort).await,
        #[cfg(not(feature = "postgres-sync"))]
        Body::Blocking(_) => {
            return Transacted::RolledBack(JobError::msg("this program was built without the feature `postgres-sync`"));
        }
    };
    let checkout = tokio::select! {
        checkout = storage.handlers.get() => checkout,
        () = abort.cancelled() => return Transacted::Aborted,
    };
    let mut conn = match checkout {
        Ok(conn) => conn,
        Err(error) => return Transacted::NotBegun(no_connection(error)),
    };
    let cancel = conn.cancel_token();
    let ended = {
        let conn: &mut AsyncPgConnection = &mut conn;
        let mut run = Box::pin(conn.transaction(async |conn| {
            let connection: AnyConnection<'_> = conn;
            let transition = body(connection).await.map_err(Rollback::Handler)?;
            crash_point("transaction-finish");
            let finish = [Finish { lease, transition: transition.clone() }];
            let moved = finish::finish_in(conn, &finish).await?;
            crash_point("transaction-commit");
            if moved { Ok(transition) } else { Err(Rollback::LeaseLost) }
        }));
        let ended = tokio::select! {
            ended = &mut run => Some(ended),
            () = abort.cancelled() => None,
        };
        // What the handler holds may panic when it is dropped. The connection would go back to the pool as it is.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(run)));
        ended
    };
    match ended {
        Some(ended) => {
            crash_point("transaction-ended");
            transacted(ended)
        }
        None => {
            // The future is gone half-way. The server may still be busy with its statement, and the transaction is open:
            // stop the one, and close the connection to end the other. It never goes back to the pool.
            storage.connector.cancel(cancel).await;
            drop(Object::take(conn));
            Transacted::Aborted
        }
    }
}

#[cfg(feature = "postgres-sync")]
pub(crate) use blocking::{BlockingPool, blocking_pool};

#[cfg(feature = "postgres-sync")]
mod blocking {
    use std::sync::Arc;

    use diesel::prelude::*;
    use diesel::r2d2::{ConnectionManager, Pool};
    use jobs_core::Lease;
    use jobs_core::storage::BlockingBody;
    use tokio_util::sync::CancellationToken;

    use crate::fate::Fate;
    use crate::pg::queries::finish::FinishQuery;
    use crate::pg::unavailable;

    use super::{Finish, PgStorage, Rollback, Transacted, crash_point, transacted};

    pub(crate) type BlockingPool = Pool<ConnectionManager<PgConnection>>;

    /// Connects when the first job asks.
    pub(crate) fn blocking_pool(url: &str, size: usize) -> BlockingPool {
        Pool::builder()
            .max_size(u32::try_from(size).unwrap_or(u32::MAX))
            .min_idle(Some(0))
            .connection_timeout(super::super::CHECKOUT_LIMIT)
            .build_unchecked(ConnectionManager::new(url))
    }

    pub(super) async fn transact(
        storage: &PgStorage,
        lease: Lease,
        body: BlockingBody,
        abort: CancellationToken,
    ) -> Transacted {
        let pool = storage.blocking.clone();
        let fate = Arc::new(Fate::default());
        let settled = fate.clone();
        let attempt = move || {
            let mut conn = match pool.get() {
                Ok(conn) => conn,
                Err(error) => return Transacted::NotBegun(unavailable(error)),
            };
            // The wait may have taken longer than the attempt had.
            if settled.is_aborted() {
                return Transacted::Aborted;
            }
            let conn: &mut PgConnection = &mut conn;
            let ended = conn.transaction(|conn| {
                let transition = body(conn).map_err(Rollback::Handler)?;
                crash_point("blocking-transaction-finish");
                let finish = [Finish { lease, transition: transition.clone() }];
                let moved: Vec<i64> = FinishQuery::new(&finish).get_result(conn)?;
                if moved.is_empty() {
                    return Err(Rollback::LeaseLost);
                }
                crash_point("blocking-transaction-commit");
                if settled.settle(Fate::COMMITS) { Ok(transition) } else { Err(Rollback::Aborted) }
            });
            transacted(ended)
        };
        let mut attempt = tokio::task::spawn_blocking(attempt);
        let ended = tokio::select! {
            biased;
            ended = &mut attempt => ended,
            () = abort.cancelled() => {
                if fate.settle(Fate::ABORTED) {
                    return Transacted::Aborted;
                }
                attempt.await
            }
        };
        ended.unwrap_or_else(|error| Transacted::Unknown(unavailable(error)))
    }
}
