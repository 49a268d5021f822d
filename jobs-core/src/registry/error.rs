//! What keeps a worker from starting with its registered jobs.

use std::sync::Arc;

use crate::discarded::InvalidDiscardRule;
use crate::missing_state;
use crate::schedule::InvalidSchedule;

/// Why a worker cannot start with its registered jobs. The text contains the cause, so the cause is not the `source()`:
/// a printed chain of causes contains it only once.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Nothing is registered.
    #[error(
        "no job is registered in this program. If your jobs are in a library, the worker binary must reference it, or the \
         linker drops it: write `diesel_jobs::worker!(my_app)` or `use my_app as _;`"
    )]
    Empty,
    /// Two handlers are registered for one kind.
    #[error("job kind `{kind}` is registered twice: {first} and {second}; give one of them `kind = \"...\"`")]
    Duplicate {
        /// The kind.
        kind: &'static str,
        /// The first handler, with its location.
        first: String,
        /// The second handler, with its location.
        second: String,
    },
    /// A job has an alias that is also the kind or an alias of another job.
    #[error(
        "`{kind}` is an alias of job {renamed}, and also {other}, so it is not clear which of them runs its stored jobs; remove the alias, \
         or give the other job another name"
    )]
    Alias {
        /// The alias, with the version of the arguments.
        kind: &'static str,
        /// The handler that has it as an alias, with its location.
        renamed: String,
        /// The other handler, with its location, and what the name is there.
        other: String,
    },
    /// A handler takes a state that the worker does not have.
    #[error("job `{kind}` ({location}) takes State<{state}>, which this worker was not given ({given}); {}", missing_state::advice(.state, .near.as_deref()))]
    MissingState {
        /// The kind.
        kind: &'static str,
        /// Where it was written.
        location: &'static str,
        /// The type.
        state: &'static str,
        /// The states that the worker has.
        given: String,
        /// How to correct it, if a state of nearly the same type was given.
        near: Option<String>,
    },
    /// A handler takes a connection that this database does not provide.
    #[error(
        "job `{kind}` ({location}) asks for a `{connection}`, which this worker's database ({database}) does not provide; \
         run the worker on a database that provides it, or change the parameter"
    )]
    WrongConnection {
        /// The kind.
        kind: &'static str,
        /// Where it was written.
        location: &'static str,
        /// The type.
        connection: &'static str,
        /// The storage's name.
        database: &'static str,
    },
    /// The job of `on_discarded` cannot be stored as a rule.
    #[error("job `{kind}` ({location}) cannot enqueue its `on_discarded` job: {problem}")]
    OnDiscarded {
        /// The kind.
        kind: &'static str,
        /// Where it was written.
        location: &'static str,
        /// What is wrong.
        problem: Arc<InvalidDiscardRule>,
    },
    /// A handler takes rows that this database cannot have.
    #[error(
        "job `{kind}` ({location}) takes rows that cannot be loaded from this worker's database ({database}), because their columns \
         have types that only another database supports. Run the worker on that database. If the rows are in two databases, \
         write two jobs"
    )]
    WrongRows {
        /// The kind.
        kind: &'static str,
        /// Where it was written.
        location: &'static str,
        /// The storage's name.
        database: &'static str,
    },
    /// A declared schedule cannot be used.
    #[error("job `{kind}` ({location}): {problem}")]
    Schedule {
        /// The kind.
        kind: &'static str,
        /// Where it was written.
        location: &'static str,
        /// What is wrong.
        problem: InvalidSchedule,
    },
}

crate::debug_as_display!(RegistryError);
