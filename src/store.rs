//! The interface that a database implements for a worker: [`Storage`], and what its operations take and return.
//!
//! An application does not need it. It gets the implementation for its database from
//! [`Database::open`](crate::Database::open), and passes it to [`Worker::builder`](crate::Worker::builder). Eleven
//! operations are required, and with them a worker runs jobs. The others have defaults, with which a database offers
//! less.
//!
//! ```
//! use diesel_jobs::store::{Chore, Storage};
//!
//! // Deletes ended jobs whose retention is over, as every worker does once a minute.
//! async fn prune(storage: &dyn Storage) -> Result<(), diesel_jobs::StorageError> {
//!     while storage.maintain(Chore::Prune, 1000).await?.more {}
//!     Ok(())
//! }
//! ```

pub use diesel_jobs_core::storage::{
    Admission, AnyConnection, AsyncBody, Beat, BlockingBody, Body, Cancelled, Chore, Claim, ClaimedJob, Crashed,
    CrashedAttempt, DeclaredRules, DeclaredSchedule, DiscardRule, EndedWaiting, Ends, Finish, Finished, Heartbeat,
    Leases, Loaded, LoadedHandler, Loading, LoadingBody, Maintained, Overrides, PassOn, Polled, ProgressReport,
    RescanReason, Rescanned, RescueDecision, RescuePolicy, Rescued, Rescuer, RetentionOverrides, ScheduledJob, Storage,
    StorageResult, StoredSchedule, StoredSchedules, Transacted, Transaction, Transition, Upkeep, WaitEnd, Waiting,
    Wanted, WorkerInfo,
};
