//! The items that a module with jobs needs: `use diesel_jobs::prelude::*;`

pub use crate::{
    BatchContext, BatchHandled, CompleteIn, Enqueue, EnqueueEach, Handle, HandleBatch, HandleBatchIn, HandleBlocking,
    HandleBlockingBatchIn, HandleBlockingIn, HandleIn, Job, JobContext, JobError, Key, Outcome, Ref, ResultExt, State,
    Take, job,
};
