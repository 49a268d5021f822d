//! Metrics: the events of a worker, the names of its metrics, and recorders that keep or forward them.
//!
//! A worker reports an [`Event`] for everything that happens to each of its [`Recorder`]s. [`MetricsText`] keeps the
//! metrics and writes them in the text format of Prometheus, under the names in [`names`]. With the feature `metrics`,
//! `MetricsRecorder` reports them to the crate `metrics`, and with the feature `opentelemetry`, the recorder of the
//! module `otel` reports them to OpenTelemetry. The worker calls recorders on its own tasks, so a recorder must return
//! quickly.
//!
//! ```
//! use diesel_jobs::metrics::{Event, Recorder};
//!
//! struct Failures;
//!
//! impl Recorder for Failures {
//!     fn record(&self, event: &Event<'_>) {
//!         if let Event::AttemptEnded { kind, error: Some(error), .. } = event {
//!             println!("an attempt of {kind} has failed: {error}");
//!         }
//!     }
//! }
//! ```

#[cfg(feature = "metrics")]
mod recorder;

pub use diesel_jobs_core::metrics::{ByJob, Gauge, Metric, MetricType, MetricsText, names};
pub use diesel_jobs_core::{AttemptOutcome, Event, Recorder, RescueOutcome, record_actions, record_enqueues};
#[cfg(feature = "metrics")]
pub use recorder::MetricsRecorder;
