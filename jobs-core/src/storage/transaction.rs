//! A transactional attempt: its input, and how it ended. The attempts of a batch share one transaction. A single
//! attempt is a batch of one job.

use std::any::TypeId;
use std::iter;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::any_connection::AnyConnection;
use crate::context::JobContext;
use crate::error::JobError;
use crate::outcome::{Finish, Transition};
use crate::storage_error::StorageError;

/// A body that runs on the runtime. It returns a transition for each job, in the order of the jobs.
pub type AsyncBody =
    Arc<dyn for<'c> Fn(AnyConnection<'c>) -> BoxFuture<'c, Result<Vec<Transition>, JobError>> + Send + Sync>;

/// A body that runs on a thread for handlers. It returns a transition for each job, in the order of the jobs.
pub type BlockingBody = Arc<dyn for<'c> Fn(AnyConnection<'c>) -> Result<Vec<Transition>, JobError> + Send + Sync>;

/// What a handler does with the connection of its transaction. It may be called again, in another transaction.
/// Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone)]
pub enum Body {
    /// Runs on the runtime.
    Async(AsyncBody),
    /// Runs on a thread for handlers.
    Blocking(BlockingBody),
}

/// A transactional attempt: the connection type, the jobs and the handler.
#[derive(Clone)]
pub struct Transaction {
    /// The connection type that the handler asked for. It is one that the storage provides.
    pub connection: TypeId,
    /// The jobs that it finishes: one, or those of a batch. The commit depends on their leases.
    pub jobs: Arc<[JobContext]>,
    /// The handler, and the decision on the outcome of each job.
    pub body: Body,
    /// Fires when the attempt must end now. Then the transaction is given up, its statement cancelled and its
    /// connection closed.
    pub abort: CancellationToken,
}

/// The finishes of a transaction. Fails if there are not as many transitions as jobs.
pub fn finishes(jobs: &[JobContext], transitions: Vec<Transition>) -> Result<Vec<Finish>, JobError> {
    if jobs.len() != transitions.len() {
        let (jobs, ended) = (jobs.len(), transitions.len());
        return Err(JobError::msg(format!("a transaction of {jobs} jobs has {ended} transitions")));
    }
    Ok(jobs.iter().map(JobContext::claimed).zip(transitions).map(|(job, end)| Finish::new(job, end)).collect())
}

/// How a transactional attempt ended. `T` are the transitions of all jobs, or the transition of one.
/// Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Debug)]
pub enum Transacted<T = Vec<Transition>> {
    /// The handler's writes and the transitions are committed together.
    Committed(T),
    /// A lease was gone. Everything is rolled back.
    LeaseLost,
    /// The handler failed. Everything is rolled back, and the leases are still valid.
    RolledBack(JobError),
    /// A conflict with another transaction (a serialization failure, a deadlock, a lock that could not be taken).
    /// Everything is rolled back, the leases were not touched, and a new run may succeed at once.
    Conflict {
        /// What the conflict was, with the database's code. The text holds no user data.
        what: &'static str,
        /// The error that the conflict caused.
        error: JobError,
    },
    /// The connection was closed before the end.
    Interrupted(Interruption),
    /// `abort` fired. Everything is or will be rolled back.
    Aborted,
    /// There was no connection, or the transaction did not begin. The handler was not called.
    NotBegun(StorageError),
    /// The database failed before or during the commit. The transaction may have been committed; a fenced finish finds
    /// out.
    Unknown(StorageError),
}

/// A connection that was closed before the attempt had ended, as by a server that stops. The handler is not known to be
/// the reason.
#[derive(Debug)]
pub struct Interruption {
    /// The error of the handler, or of the end.
    pub error: JobError,
    /// Whether the transaction may have been committed. If not, it is rolled back.
    pub may_have_committed: bool,
    /// Whether the server said that an administrator has ended the session or stops the server. A handler whose
    /// statements crash the server never causes this. libpq does not pass on what the server has said.
    pub by_administrator: bool,
}

impl Interruption {
    fn for_another_job(&self) -> Self {
        Self { error: self.error.for_another_job(), ..*self }
    }
}

impl Transacted {
    /// The commit of these finishes.
    pub fn committed(finishes: Vec<Finish>) -> Self {
        Self::Committed(finishes.into_iter().map(|finish| finish.transition).collect())
    }

    /// The end of the attempt of the only job.
    pub(crate) fn of_one(self) -> Transacted<Transition> {
        match self {
            Self::Committed(transitions) => committed(transitions.into_iter().next()),
            Self::LeaseLost => Transacted::LeaseLost,
            Self::RolledBack(error) => Transacted::RolledBack(error),
            Self::Conflict { what, error } => Transacted::Conflict { what, error },
            Self::Interrupted(interruption) => Transacted::Interrupted(interruption),
            Self::Aborted => Transacted::Aborted,
            Self::NotBegun(problem) => Transacted::NotBegun(problem),
            Self::Unknown(problem) => Transacted::Unknown(problem),
        }
    }

    /// The end of the attempt of each of these jobs. All share an error.
    pub(crate) fn of_each(self, jobs: usize) -> Vec<Transacted<Transition>> {
        let end: Box<dyn Fn() -> Transacted<Transition>> = match self {
            Self::Committed(transitions) => {
                let each = transitions.into_iter().map(Some).chain(iter::repeat(None));
                return each.take(jobs).map(committed).collect();
            }
            Self::LeaseLost => Box::new(|| Transacted::LeaseLost),
            Self::RolledBack(error) => Box::new(move || Transacted::RolledBack(error.for_another_job())),
            Self::Conflict { what, error } => {
                Box::new(move || Transacted::Conflict { what, error: error.for_another_job() })
            }
            Self::Interrupted(interruption) => {
                Box::new(move || Transacted::Interrupted(interruption.for_another_job()))
            }
            Self::Aborted => Box::new(|| Transacted::Aborted),
            Self::NotBegun(problem) => Box::new(move || Transacted::NotBegun(problem.repeated())),
            Self::Unknown(problem) => Box::new(move || Transacted::Unknown(problem.repeated())),
        };
        iter::repeat_with(end).take(jobs).collect()
    }
}

/// A commit without a transition of this job would be an error of the storage. The finish that names the lease then
/// finds out.
fn committed(transition: Option<Transition>) -> Transacted<Transition> {
    let without = || Transacted::Unknown(StorageError::Unavailable("a commit without the job's transition".into()));
    transition.map_or_else(without, Transacted::Committed)
}
