//! What a handler may return, and how it comes to the common form.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::IntoJobError;
use crate::outcome::{Handled, Outcome};
use crate::output::Output;

/// The return types a handler may have. `M` is inferred; see [`IntoJobError`](crate::error::IntoJobError).
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "not a job's return type",
    note = "return `()`, `Outcome` or `Result<T, E>`, where `T` is `()`, `Outcome` or the job's output, which implements `serde::Serialize`",
    note = "where `E` is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `JobError`"
)]
pub trait IntoHandled<M> {
    /// Brings the answer to its common form.
    fn into_handled(self) -> Handled;
}

impl IntoHandled<()> for () {
    fn into_handled(self) -> Handled {
        Ok(Outcome::Complete)
    }
}

impl IntoHandled<()> for Outcome {
    fn into_handled(self) -> Handled {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: JobOutput, E: IntoJobError<M>, M> IntoHandled<M> for Result<T, E> {
    fn into_handled(self) -> Handled {
        self.map(T::into_outcome).map_err(E::of_handler)
    }
}

/// What the `Ok` of a handler may hold: an [`Outcome`], or any value that serde can serialize, which becomes the output
/// of the job. `()`, other zero-sized types, and values whose JSON is `null` are no output.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "not the output of a job",
    note = "derive `serde::Serialize` for `{Self}`, or return `()` or `Outcome` if the job has no output"
)]
pub trait JobOutput {
    /// How the attempt ends.
    fn into_outcome(self) -> Outcome;
}

impl JobOutput for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> JobOutput for T {
    fn into_outcome(self) -> Outcome {
        if size_of::<T>() == 0 {
            return Outcome::Complete;
        }
        match Output::new(&self) {
            output if output.is_null() => Outcome::Complete,
            output => Outcome::CompleteWith(output),
        }
    }
}

/// A return type of a handler whose output can be read as a `V`. The `output` of a job's type asks for it.
#[diagnostic::on_unimplemented(
    message = "the output of this job cannot be read as `{V}`",
    note = "it returns `{Self}`; the type in its `Ok` must implement `serde::de::DeserializeOwned`"
)]
pub trait ReturnsOutput<V> {}

impl<V: DeserializeOwned> ReturnsOutput<V> for Outcome {}
impl<T: ReadAs<V>, E, V> ReturnsOutput<V> for Result<T, E> {}

/// What a handler returns in `Ok`, read as a `V`: itself, or anything where it returned an [`Outcome`].
#[diagnostic::on_unimplemented(
    message = "the output of this job cannot be read as `{V}`",
    note = "the job returns `{Self}`, which must implement `serde::de::DeserializeOwned`"
)]
pub(crate) trait ReadAs<V> {}

impl<V: DeserializeOwned> ReadAs<V> for Outcome {}
#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> ReadAs<T> for T {}
