//! What a module with jobs in it needs: `use diesel_jobs::prelude::*;`

pub use crate::{
    BatchContext, BatchHandled, CompleteIn, Enqueue, EnqueueEach, Handle, HandleBatch, HandleBatchIn, HandleBlocking,
    HandleBlockingBatchIn, HandleBlockingIn, HandleIn, Job, JobContext, JobError, Key, Outcome, Ref, ResultExt, State,
    Take, job,
};
