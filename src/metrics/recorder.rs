//! A recorder for the crate `metrics`, behind the feature `metrics`.

use std::sync::Arc;

use ::metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use diesel_jobs_core::metrics::{ByJob, Metric, MetricType, names};
use diesel_jobs_core::{Event, Gauge, Recorder, WorkerHandle};

/// Reports the metrics of a worker through the crate `metrics`, under the names and labels of [`names`].
///
/// Install your exporter before you create the recorder. If the exporter needs bucket bounds for its histograms, use
/// [`names::SECONDS`] for those of durations.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use diesel_jobs::metrics::MetricsRecorder;
/// # use diesel_jobs::store::Storage;
/// # use diesel_jobs::{Worker, WorkerError};
/// # fn build(storage: Arc<dyn Storage>) -> Result<Worker, WorkerError> {
/// let worker = Worker::builder(storage).recorder(Arc::new(MetricsRecorder::new())).build()?;
/// # Ok(worker)
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MetricsRecorder {
    labels: ByJob<[Label; 2]>,
}

impl MetricsRecorder {
    /// Creates a recorder, and describes all metrics to the installed exporter.
    pub fn new() -> Self {
        for metric in names::ALL {
            let (name, unit) = (metric.prometheus, if metric.unit == "s" { Unit::Seconds } else { Unit::Count });
            match metric.kind {
                MetricType::Counter => describe_counter!(name, unit, metric.help),
                MetricType::Gauge => describe_gauge!(name, unit, metric.help),
                _ => describe_histogram!(name, unit, metric.help),
            }
        }
        Self::default()
    }

    /// Sets the gauges of this worker, such as running jobs, slots and the age of the heartbeat, to their current
    /// values. Call it every few seconds, or each time before the exporter is scraped.
    pub fn publish(&self, worker: &WorkerHandle) {
        for Gauge { metric, labels, value, .. } in Gauge::of_worker(worker) {
            let labels: Vec<Label> =
                metric.labels.iter().zip(labels).map(|(label, value)| Label::new(*label, value)).collect();
            gauge!(metric.prometheus, labels).set(value);
        }
    }

    fn labels(&self, queue: &str, kind: &str) -> Vec<Label> {
        let label = |name, value: &str| Label::new(name, SharedString::from_shared(Arc::<str>::from(value)));
        self.labels.get(queue, kind, |queue, kind| [label("queue", queue), label("kind", kind)]).to_vec()
    }
}

impl Recorder for MetricsRecorder {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Sent { queue, kind, jobs } => add(&names::SENT, self.labels(queue, kind), jobs),
            Event::Claimed { jobs } => histogram!(names::CLAIM_SIZE.prometheus).record(jobs as f64),
            Event::Received { queue, kind, jobs } => add(&names::RECEIVED, self.labels(queue, kind), jobs),
            Event::AttemptEnded { queue, kind, outcome, error, wait, run } => {
                let labels = self.labels(queue, kind);
                let failed = |mut labels: Vec<Label>| {
                    labels.extend(error.map(|error| Label::from_static_parts("error_type", error.as_str())));
                    labels
                };
                if let Some(wait) = wait {
                    histogram!(names::WAIT.prometheus, labels.clone()).record(wait.as_secs_f64());
                }
                if let Some(run) = run {
                    histogram!(names::PROCESS.prometheus, failed(labels.clone())).record(run.as_secs_f64());
                }
                let mut labels = failed(labels);
                labels.push(Label::from_static_parts("outcome", outcome.as_str()));
                add(&names::ATTEMPTS, labels, 1);
            }
            Event::LeaseLost { queue, kind } => add(&names::LEASES_LOST, self.labels(queue, kind), 1),
            Event::Rescued { jobs, outcome } => {
                add(&names::RESCUED, vec![Label::from_static_parts("outcome", outcome.as_str())], jobs);
            }
            Event::Pruned { jobs } => add(&names::PRUNED, Vec::new(), jobs),
            Event::ScheduleFired { kind, jobs } => {
                add(&names::SCHEDULE_FIRES, self.labels("", kind)[1..].to_vec(), jobs)
            }
            Event::StorageOperation { operation, took, error } => {
                let mut labels = vec![Label::from_static_parts("operation", operation)];
                labels.extend(error.map(|error| Label::from_static_parts("error_type", error)));
                histogram!(names::STORAGE.prometheus, labels.clone()).record(took.as_secs_f64());
                if error.is_some() {
                    add(&names::DATABASE_ERRORS, labels, 1);
                }
            }
            Event::Polled => add(&names::POLLS, Vec::new(), 1),
            Event::ClaimRefused => add(&names::CLAIMS_REFUSED, Vec::new(), 1),
            Event::OperatorAction { action, jobs } => {
                add(&names::OPERATOR_ACTIONS, vec![Label::new("action", action.to_owned())], jobs);
            }
            // Events of later versions have no metric here.
            _ => {}
        }
    }
}

fn add(metric: &Metric, labels: Vec<Label>, number: usize) {
    counter!(metric.prometheus, labels).increment(number as u64);
}
