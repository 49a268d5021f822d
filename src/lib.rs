//! Background jobs for Diesel.

pub use jobs_core::{
    Backoff, CatchUp, Handle, InvalidJob, InvalidSchedule, Job, JobBuilder, JobContext, JobError, JobId, JobOptions, JobState,
    NewJob, Outcome, Registered, Registration, Registry, RegistryError, ResultExt, Retain, RunAt, State,
};
pub use jobs_macros::{Job, job};

/// What the macros' output names. Not for people: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use jobs_core::__private::{Argument, BoxFuture, NoArguments, decode, inventory};
    pub use jobs_core::{
        AnyConnection, Backoff, CatchUp, Handle, Handled, Handler, IntoHandled, Job, JobContext, JobError, JobOptions, Registered,
        Registration, Retain, ScheduleSpec, State, TypeKey,
    };
    pub use jobs_diesel::{AsyncJobConnection, BlockingJobConnection};
    pub use serde;
}
