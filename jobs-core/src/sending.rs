//! What every enqueue has in common, whatever its connection: the span `send`, the trace context, and the event for recorders.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tracing::Span;

use crate::new_job::{InvalidJob, NewJob};
use crate::recorder::{Event, Recorder, Recorders};
use crate::telemetry;
use crate::trace_context;

/// Whether anything is recorded, so that an enqueue takes no lock otherwise.
static IS_RECORDED: AtomicBool = AtomicBool::new(false);
static RECORDERS: RwLock<Option<Recorders>> = RwLock::new(None);

/// Reports every enqueue of this process to this recorder, as [`Event::Sent`]. An enqueue has no worker, so its recorders are the
/// process's. `worker run --listen` does this for the jobs that handlers enqueue.
pub fn record_enqueues(recorder: Arc<dyn Recorder>) {
    RECORDERS.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().add(recorder);
    IS_RECORDED.store(true, Ordering::Release);
}

/// Before a job is sent: gives it the current trace context, and reports it. Returns the span in which it is sent.
pub fn sending(job: &mut Result<NewJob, InvalidJob>) -> Span {
    job.as_mut().map_or_else(|_| Span::none(), |job| sending_all(std::slice::from_mut(job)))
}

/// The same for many jobs.
pub fn sending_all(jobs: &mut [NewJob]) -> Span {
    let Some(first) = jobs.first() else { return Span::none() };
    let span = telemetry::send_span(&first.queue, jobs.len());
    trace(&span, jobs);
    record(jobs);
    span
}

/// The same for a job that stands for the rows of a query. How many these are is only known to the database, so recorders get no
/// event.
pub fn sending_each(job: &mut Result<NewJob, InvalidJob>) -> Span {
    let Ok(job) = job else { return Span::none() };
    let span = telemetry::send_span(&job.queue, 1);
    trace(&span, std::slice::from_mut(job));
    span
}

/// Gives the jobs the trace context of this span.
fn trace(span: &Span, jobs: &mut [NewJob]) {
    if let Some(current) = span.in_scope(trace_context::current) {
        for job in jobs.iter_mut().filter(|job| job.traceparent.is_none()) {
            job.traceparent = Some(current.clone());
        }
    }
}

fn record(jobs: &[NewJob]) {
    if !IS_RECORDED.load(Ordering::Acquire) {
        return;
    }
    let recorders = RECORDERS.read().unwrap_or_else(PoisonError::into_inner);
    let Some(recorders) = &*recorders else { return };
    for alike in jobs.chunk_by(|one, other| one.kind == other.kind && one.queue == other.queue) {
        let NewJob { queue, kind, .. } = &alike[0];
        recorders.record(|| Event::Sent { queue, kind, jobs: alike.len() });
    }
}
