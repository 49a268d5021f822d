//! The spans.

use chrono::TimeDelta;
use tracing::field::Empty;
use tracing::{Span, debug_span, info_span};

use crate::lease::ClaimedJob;
use crate::trace_context::{self, TraceRelation};

/// A job that became due this long after its enqueue was delayed.
const DELAYED: TimeDelta = TimeDelta::seconds(1);

/// The fields `otel.*` are only filled in if a program connects spans with traces. They give the span the name and the
/// kind that the messaging conventions of OpenTelemetry ask for.
pub(crate) fn job_span(job: &ClaimedJob) -> Span {
    let span = info_span!(
        target: "diesel_jobs",
        "job",
        job.id = job.lease.job.0,
        job.kind = job.kind,
        job.queue = job.queue,
        job.attempt = job.attempt,
        job.max_attempts = job.max_attempts,
        job.traceparent = Empty,
        otel.name = Empty,
        otel.kind = Empty,
    );
    if let Some(traceparent) = &job.traceparent {
        span.record("job.traceparent", traceparent.as_str());
        let at_once = job.attempt == 1 && job.run_at - job.enqueued_at < DELAYED;
        trace_context::link(&span, traceparent, if at_once { TraceRelation::Child } else { TraceRelation::Link });
    }
    name_for_traces(&span, &format_args!("process {}", job.queue), "consumer");
    span
}

/// The span around the call of a batch handler.
pub(crate) fn batch_span(kind: &str, queue: &str, jobs: usize) -> Span {
    info_span!(target: "diesel_jobs", "batch", job.kind = kind, job.queue = queue, batch.jobs = jobs)
}

/// The span around the insert of an enqueue.
pub(crate) fn send_span(queue: &str, jobs: usize) -> Span {
    let span = debug_span!(
        target: "diesel_jobs", "send", job.queue = queue, send.jobs = jobs, otel.name = Empty, otel.kind = Empty
    );
    name_for_traces(&span, &format_args!("send {queue}"), "producer");
    span
}

fn name_for_traces(span: &Span, name: &dyn std::fmt::Display, kind: &'static str) {
    if trace_context::is_linked() && !span.is_disabled() {
        span.record("otel.name", tracing::field::display(name)).record("otel.kind", kind);
    }
}

/// The span of an operation of the storage. `storage.ms` is its duration.
pub(crate) fn storage_span(operation: &'static str) -> Span {
    let span = debug_span!(
        target: "diesel_jobs", "storage", storage.operation = operation, storage.ms = Empty, otel.name = Empty, otel.kind = Empty
    );
    // The conventions have names for these two.
    let name = match operation {
        "claim" => "receive",
        "finish" => "settle",
        other => other,
    };
    name_for_traces(&span, &name, "client");
    span
}
