//! `transact`: a handler inside the transaction that finishes its job, or all jobs of its batch.
//!
//! The transaction holds the write lock from its beginning. So leases that are valid at the beginning are valid until
//! the commit. If one is not valid, the handler is not started. The finish names the leases nevertheless.
//!
//! A blocking function cannot be stopped. `abort` decides at once that its transaction will not be committed. The
//! transaction is rolled back when the function returns, and holds the write lock until then.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use diesel::SqliteConnection;
use diesel::result::Error as DieselError;
use diesel_jobs_core::__private::{NoResult, spawn_handler};
use diesel_jobs_core::storage::{BlockingBody, Body, Transacted, Transaction, finishes};
use diesel_jobs_core::{Finish, JobContext, JobError, StorageError, Transition};

use crate::commit_decision::CommitDecision;
use crate::error::storage_error;
use crate::sqlite::queries::finish;
use crate::sqlite::shared_connection::{Checkout, SharedConnection};

pub(super) async fn transact(writer: &Arc<SharedConnection>, transaction: Transaction) -> Transacted {
    let Transaction { connection, jobs, body, abort } = transaction;
    let Body::Blocking(handler) = body else {
        return Transacted::RolledBack(JobError::msg(
            "an `async fn` job cannot take a connection of SQLite; write a plain `fn` that takes `&mut SqliteConnection`",
        ));
    };
    if connection != TypeId::of::<SqliteConnection>() {
        return Transacted::RolledBack(JobError::msg(
            "this worker's database is SQLite, which provides `&mut SqliteConnection` and no other connection",
        ));
    }
    let commit_decision = Arc::new(CommitDecision::default());
    let mut attempt = spawn_handler({
        let (writer, commit_decision) = (Arc::clone(writer), Arc::clone(&commit_decision));
        move || attempt(&writer, &jobs, &handler, &commit_decision)
    });
    tokio::select! {
        biased;
        done = &mut attempt => settled(done),
        () = abort.cancelled() => if commit_decision.settle(CommitDecision::ABORTED) { Transacted::Aborted } else { settled(attempt.await) },
    }
}

/// Why the transaction was not committed.
enum End {
    LeaseLost,
    Failed(JobError),
    Aborted,
    Database(DieselError),
}

impl From<DieselError> for End {
    fn from(error: DieselError) -> Self {
        Self::Database(error)
    }
}

fn attempt(
    writer: &SharedConnection,
    jobs: &[JobContext],
    handler: &BlockingBody,
    commit_decision: &CommitDecision,
) -> Transacted {
    let Some(mut checkout) = checkout(writer, commit_decision) else { return Transacted::Aborted };
    let ended = match checkout.connection() {
        Ok(conn) => conn.immediate_transaction(|conn| attempt_inside(conn, jobs, handler, commit_decision)),
        Err(error) => return Transacted::Unknown(error),
    };
    checkout.check_in();
    match ended {
        Ok(finishes) => Transacted::committed(finishes),
        Err(End::LeaseLost) => Transacted::LeaseLost,
        Err(End::Failed(error)) => Transacted::RolledBack(error),
        Err(End::Aborted) => Transacted::Aborted,
        Err(End::Database(error)) => Transacted::Unknown(storage_error(error)),
    }
}

fn attempt_inside(
    conn: &mut SqliteConnection,
    jobs: &[JobContext],
    handler: &BlockingBody,
    commit_decision: &CommitDecision,
) -> Result<Vec<Finish>, End> {
    for job in jobs {
        if !finish::is_valid(conn, job.lease())? {
            return Err(End::LeaseLost);
        }
    }
    let finishes = handler(conn).and_then(|transitions| finishes(jobs, transitions)).map_err(End::Failed)?;
    let moved = match &finishes[..] {
        // The statements for many jobs cost more. Only a batch discards jobs in its transaction.
        [one] if !matches!(one.transition, Transition::Discard { .. }) => usize::from(finish::finish_one(conn, one)?),
        all => finish::finish(conn, all)?.len(),
    };
    if moved < jobs.len() {
        return Err(End::LeaseLost);
    }
    if !commit_decision.settle(CommitDecision::COMMITS) {
        return Err(End::Aborted);
    }
    Ok(finishes)
}

/// Checks the connection out, without a time limit. Returns `None` if the attempt was aborted.
fn checkout<'s>(writer: &'s SharedConnection, commit_decision: &CommitDecision) -> Option<Checkout<'s>> {
    while !commit_decision.is_aborted() {
        if let Some(checkout) = writer.check_out(Duration::from_millis(100)) {
            return Some(checkout);
        }
    }
    None
}

fn settled(done: Result<Transacted, NoResult>) -> Transacted {
    done.unwrap_or_else(|error| match error {
        // The panic has closed the connection. This rolled back the transaction.
        NoResult::Panicked(_) => Transacted::RolledBack(JobError::msg("the handler panicked inside its transaction")),
        error @ NoResult::NotRun => Transacted::NotBegun(StorageError::Unavailable(error.to_string().into())),
    })
}
