//! The items that a module with jobs needs: `use diesel_jobs::prelude::*;`
//!
//! The extension traits [`EnqueueEach`](crate::enqueue::EnqueueEach), [`CompleteIn`](crate::handler::CompleteIn) and
//! [`ResultExt`](crate::handler::ResultExt) are imported without a name, so their methods can be called.

pub use crate::enqueue::EnqueueEach as _;
pub use crate::handler::{CompleteIn as _, ResultExt as _};
pub use crate::{Enqueue, Job, JobContext, JobError, Outcome, State, job};
