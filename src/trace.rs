//! Traces: how the trace in which a job was enqueued is connected with the spans of its attempts. The module `otel`
//! (feature `opentelemetry`) does this for OpenTelemetry. Use this module to connect another tracing system.
//!
//! [`set_trace_source`] takes the function that returns the current trace. Each enqueue calls it, and stores the result
//! with the job as a [`Traceparent`]. [`set_trace_link`] takes the function that connects the span of an attempt with
//! this trace, in the way that [`TraceRelation`] says. Set both once, when the program starts:
//!
//! ```
//! use diesel_jobs::trace::{TraceRelation, set_trace_link, set_trace_source};
//!
//! set_trace_source(|| Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()));
//! set_trace_link(|_span, traceparent, relation| match relation {
//!     TraceRelation::Child => println!("an attempt in the trace {}", traceparent.trace_id()),
//!     _ => println!("an attempt with a link to the trace {}", traceparent.trace_id()),
//! });
//! ```

pub use diesel_jobs_core::{TraceLink, TraceRelation, Traceparent, set_trace_link, set_trace_source};
