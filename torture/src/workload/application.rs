//! The application: it enqueues through the product, and records the reply for each job.

use std::time::Duration;

use anyhow::Result;
use diesel::result::Error as DieselError;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Enqueue as _, NewJob, enqueue_all};

use super::mix::EnqueueCall;
use super::new_job::new_job;
use crate::history::{CommitOutcome, Enqueued};

/// How long a reply may take before the application closes its connection.
const LIMIT: Duration = Duration::from_secs(15);
/// The pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// An application with one connection, which it replaces after each failure.
#[allow(missing_debug_implementations)]
pub struct Application {
    url: String,
    conn: Option<AsyncPgConnection>,
    ledger: Vec<Enqueued>,
    untold: usize,
}

impl Application {
    /// Creates an application that enqueues in the database at this URL.
    pub fn new(url: String) -> Self {
        Self { url, conn: None, ledger: Vec::new(), untold: 0 }
    }

    /// Returns its record of its jobs.
    pub fn ledger(self) -> Vec<Enqueued> {
        self.ledger
    }

    /// Returns the number of calls whose outcome it does not know.
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// Performs one call, and records the reply.
    pub async fn perform(&mut self, call: &EnqueueCall) -> Result<()> {
        let (works, commit, late) = match call {
            EnqueueCall::Single(work) => (std::slice::from_ref(work), true, Duration::ZERO),
            EnqueueCall::Transaction { works, commit, late } => (works.as_slice(), *commit, *late),
            EnqueueCall::Bulk(works) => (works.as_slice(), true, Duration::ZERO),
        };
        let jobs = works.iter().map(new_job).collect::<Result<Vec<_>, _>>()?;
        let mut conn = self.connection().await;
        let done = match call {
            EnqueueCall::Single(_) | EnqueueCall::Bulk(_) => {
                tokio::time::timeout(LIMIT, at_once(&mut conn, jobs)).await
            }
            EnqueueCall::Transaction { .. } => {
                tokio::time::timeout(LIMIT, together(&mut conn, jobs, late, commit)).await
            }
        };
        // Without a reply the outcome is unknown, except that a transaction without a commit is rolled back.
        let done = done.unwrap_or(CommitReply {
            ids: Vec::new(),
            outcome: if commit { CommitOutcome::Unknown } else { CommitOutcome::RolledBack },
        });
        if done.outcome != CommitOutcome::Unknown && (done.outcome == CommitOutcome::Acknowledged) == commit {
            self.conn = Some(conn);
        }
        self.untold += usize::from(done.outcome == CommitOutcome::Unknown);
        let id = |place: usize| done.ids.get(place).copied();
        self.ledger.extend(works.iter().enumerate().map(|(place, work)| work.enqueued(id(place), done.outcome)));
        Ok(())
    }

    async fn connection(&mut self) -> AsyncPgConnection {
        loop {
            if let Some(conn) = self.conn.take() {
                return conn;
            }
            match tokio::time::timeout(LIMIT, AsyncPgConnection::establish(&self.url)).await {
                Ok(Ok(conn)) => return conn,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The reply to the application.
struct CommitReply {
    ids: Vec<i64>,
    outcome: CommitOutcome,
}

async fn at_once(conn: &mut AsyncPgConnection, mut jobs: Vec<NewJob>) -> CommitReply {
    let result = match jobs.len() {
        1 => jobs.remove(0).enqueue(conn).await.map(|id| vec![id]),
        _ => enqueue_all(conn, jobs).await,
    };
    match result {
        Ok(ids) => CommitReply { ids: ids.into_iter().map(|id| id.0).collect(), outcome: CommitOutcome::Acknowledged },
        Err(_) => CommitReply { ids: Vec::new(), outcome: CommitOutcome::Unknown },
    }
}

async fn together(conn: &mut AsyncPgConnection, jobs: Vec<NewJob>, late: Duration, commit: bool) -> CommitReply {
    let mut ids = Vec::new();
    let mut to_commit = false;
    let result = conn
        .transaction(async |conn| {
            for job in jobs {
                ids.push(job.enqueue(conn).await.map_err(DieselError::from)?.0);
            }
            if !late.is_zero() {
                tokio::time::sleep(late).await;
            }
            to_commit = commit;
            if commit { Ok(()) } else { Err(DieselError::RollbackTransaction) }
        })
        .await;
    let outcome = match result {
        Ok(()) => CommitOutcome::Acknowledged,
        Err(_) if to_commit => CommitOutcome::Unknown,
        Err(_) => CommitOutcome::RolledBack,
    };
    CommitReply { ids, outcome }
}
