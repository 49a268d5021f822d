//! What every enqueue has in common, whatever its connection: the span `send`, the trace context, and the event for
//! recorders.

use std::sync::Arc;

use tracing::Span;

use crate::jobs_of_rows::JobsOfRows;
use crate::new_job::{InvalidJob, NewJob};
use crate::of_process::OfProcess;
use crate::recorder::{Event, Recorder};
use crate::telemetry;
use crate::trace_context;

static ENQUEUES: OfProcess = OfProcess::new();

/// Reports every enqueue of this process to this recorder, as [`Event::Sent`]. An enqueue has no worker, so its
/// recorders are the process's. `worker run --listen` does this for the jobs that handlers enqueue.
pub fn record_enqueues(recorder: Arc<dyn Recorder>) {
    ENQUEUES.add(recorder);
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

/// The same for the jobs of the rows of a query. How many these are is known afterwards: see [`sent_each`].
pub fn sending_each(jobs: &mut Result<JobsOfRows, InvalidJob>) -> Span {
    let Ok(jobs) = jobs else { return Span::none() };
    let job = jobs.common_mut();
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

/// After the jobs of a query's rows were inserted.
pub fn sent_each(rows: &JobsOfRows, jobs: usize) {
    let job = rows.common();
    if jobs > 0 {
        ENQUEUES.record(|recorders| {
            recorders.record(|| Event::Sent { queue: &job.queue, kind: &job.kind, jobs });
        });
    }
}

fn record(jobs: &[NewJob]) {
    ENQUEUES.record(|recorders| {
        for alike in jobs.chunk_by(|one, other| one.kind == other.kind && one.queue == other.queue) {
            let NewJob { queue, kind, .. } = &alike[0];
            recorders.record(|| Event::Sent { queue, kind, jobs: alike.len() });
        }
    });
}
