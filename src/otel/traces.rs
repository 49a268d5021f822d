//! Connects the spans of `tracing` with the trace contexts that are stored with jobs.

use diesel_jobs_core::{TraceRelation, Traceparent, set_trace_link, set_trace_source};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Connects the traces of enqueues and attempts. Call this function once, after you have installed a subscriber that
/// contains `tracing_opentelemetry::layer()`.
///
/// From then on, every enqueue of this process stores the current trace context with its jobs. The first attempt of a
/// job that is due at once continues the trace of its enqueue: its span `job` is a child of the span around the
/// enqueue. Every other attempt has a trace of its own, which links to that of the enqueue.
pub fn connect_traces() {
    set_trace_source(current);
    set_trace_link(connect);
}

/// The context of the current span of `tracing`, or of OpenTelemetry itself.
fn current() -> Option<String> {
    let of = |context: &Context| context.span().span_context().clone();
    let span = of(&Span::current().context());
    let span = if span.is_valid() { span } else { of(&Context::current()) };
    span.is_valid().then(|| format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8()))
}

fn connect(span: &Span, traceparent: &Traceparent, relation: TraceRelation) {
    let ids = (TraceId::from_hex(traceparent.trace_id()), SpanId::from_hex(traceparent.span_id()));
    // A `Traceparent` holds valid ids.
    let (Ok(trace), Ok(id)) = ids else { return };
    let flags = if traceparent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let enqueue = SpanContext::new(trace, id, flags, true, TraceState::NONE);
    match relation {
        TraceRelation::Child => {
            // It fails if no layer of OpenTelemetry sees this span. Then there is no trace to connect.
            let _ = span.set_parent(Context::new().with_remote_span_context(enqueue));
        }
        // A link, and what a later version may add: a link is right between any two spans.
        _ => span.add_link(enqueue),
    }
}
