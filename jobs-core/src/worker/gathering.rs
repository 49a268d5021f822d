//! Batches that wait for more jobs. A claimed job that such a batch can take does not become prefetched: the batch gets
//! it at once. Otherwise each free slot would begin a batch of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::batch_handler::BatchHandler;
use crate::context::JobContext;

/// The batches of a queue that wait for more jobs.
#[derive(Default)]
pub(super) struct Gatherings {
    batches: Mutex<Vec<Batch>>,
    /// How many jobs they still take. A queue without such batches reads nothing else.
    room: AtomicUsize,
}

struct Batch {
    handler: &'static BatchHandler,
    kind: String,
    key: String,
    room: usize,
    jobs: Vec<JobContext>,
    full: Arc<Notify>,
}

impl Gatherings {
    fn batches(&self) -> MutexGuard<'_, Vec<Batch>> {
        // Nothing panics while the lock is held.
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many jobs the batches still take.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Acquire)
    }

    /// Gives the job to a batch that can take it. Returns it if there is none.
    pub(super) fn offer(&self, ctx: JobContext) -> Result<(), JobContext> {
        let mut batches = self.batches();
        let fits =
            |batch: &&mut Batch| batch.room > 0 && batch.kind == ctx.kind() && batch.key == batch.handler.key_of(&ctx);
        let Some(batch) = batches.iter_mut().find(fits) else { return Err(ctx) };
        batch.room -= 1;
        batch.jobs.push(ctx);
        if batch.room == 0 {
            batch.full.notify_one();
        }
        self.room.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }

    /// Begins to wait for this many jobs that can run together with this one.
    pub(super) fn begin(&self, handler: &'static BatchHandler, ctx: &JobContext, room: usize) -> Gathering<'_> {
        let full = Arc::new(Notify::new());
        let batch = Batch {
            handler,
            kind: ctx.kind().to_owned(),
            key: handler.key_of(ctx),
            room,
            jobs: Vec::new(),
            full: full.clone(),
        };
        self.batches().push(batch);
        self.room.fetch_add(room, Ordering::AcqRel);
        Gathering { of: self, full }
    }
}

/// A batch that waits for more jobs.
pub(super) struct Gathering<'q> {
    of: &'q Gatherings,
    full: Arc<Notify>,
}

impl Gathering<'_> {
    /// Becomes ready when the batch takes no more jobs.
    pub(super) async fn full(&self) {
        self.full.notified().await;
    }

    /// Ends the wait. Returns the jobs that have come.
    pub(super) fn end(self) -> Vec<JobContext> {
        let mut batches = self.of.batches();
        let Some(place) = batches.iter().position(|batch| Arc::ptr_eq(&batch.full, &self.full)) else {
            return Vec::new();
        };
        let batch = batches.swap_remove(place);
        self.of.room.fetch_sub(batch.room, Ordering::AcqRel);
        batch.jobs
    }
}
