//! What a module with jobs in it needs: `use jobs::prelude::*;`

pub use crate::{CompleteIn, Enqueue, Handle, Job, JobContext, JobError, Outcome, ResultExt, State, job};
