//! OpenTelemetry (feature `opentelemetry`): a recorder that reports metrics to a `Meter`, and traces. A trace connects
//! an enqueue with the attempts of the job, and these with the jobs that its handler enqueues.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use diesel_jobs::store::Storage;
//! # use diesel_jobs::{Worker, WorkerError};
//! # fn build(storage: Arc<dyn Storage>, meter: opentelemetry::metrics::Meter) -> Result<Worker, WorkerError> {
//! // The program has installed its exporters, and `tracing_opentelemetry::layer()` in its subscriber.
//! diesel_jobs::otel::connect_traces();
//! let metrics = Arc::new(diesel_jobs::otel::OpenTelemetryRecorder::new(meter));
//! let worker = Worker::builder(storage).recorder(metrics.clone()).build()?;
//! metrics.observe(&worker.handle());
//! # Ok(worker)
//! # }
//! ```

mod recorder;
mod traces;

pub use recorder::OpenTelemetryRecorder;
pub use traces::connect_traces;
