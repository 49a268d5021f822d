//! The parameter `State(x): State<T>` of a job. The macro's output takes each of them through [`StateParameter`].

use std::any::type_name;

use crate::context::JobContext;
use crate::error::JobError;
use crate::states::State;

/// The type of a parameter that the macro takes for [`State`], because its name is `State`.
#[diagnostic::on_unimplemented(
    message = "a job takes the `State` of `diesel_jobs`, and this is `{Self}`",
    label = "another type with the name `State`",
    note = "write `diesel_jobs::State(x): diesel_jobs::State<T>`, or import `diesel_jobs::State` instead of the other type"
)]
pub trait StateParameter: Sized {
    /// A clone of the value that a layer has added to the attempt, or that the worker was given.
    fn of_worker(ctx: &JobContext) -> Result<Self, JobError>;
}

impl<T: Clone + Send + Sync + 'static> StateParameter for State<T> {
    fn of_worker(ctx: &JobContext) -> Result<Self, JobError> {
        ctx.state::<T>().cloned().map(State).ok_or_else(|| {
            JobError::msg(format!(
                "job `{}` takes State<{}>, which this worker was not given; add `.state(..)` to its builder",
                ctx.kind(),
                type_name::<T>()
            ))
        })
    }
}
