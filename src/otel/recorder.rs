//! A recorder for a `Meter` of OpenTelemetry.

use diesel_jobs_core::metrics::{ByJob, Metric, names};
use diesel_jobs_core::{Event, Gauge, Recorder, WorkerHandle};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

/// Reports the metrics of a worker to OpenTelemetry, under the names of [`names`] and with the attributes of the
/// semantic conventions for messaging: `messaging.destination.name`, for example, is the queue.
pub struct OpenTelemetryRecorder {
    meter: Meter,
    attributes: ByJob<[KeyValue; 3]>,
    sent: Counter<u64>,
    received: Counter<u64>,
    attempts: Counter<u64>,
    leases_lost: Counter<u64>,
    claims_refused: Counter<u64>,
    polls: Counter<u64>,
    rescued: Counter<u64>,
    pruned: Counter<u64>,
    fires: Counter<u64>,
    errors: Counter<u64>,
    actions: Counter<u64>,
    process: Histogram<f64>,
    storage: Histogram<f64>,
    wait: Histogram<f64>,
    claim_size: Histogram<f64>,
}

impl std::fmt::Debug for OpenTelemetryRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTelemetryRecorder").finish_non_exhaustive()
    }
}

fn system() -> KeyValue {
    KeyValue::new("messaging.system", "diesel_jobs")
}

/// The attribute for a label.
fn attribute(label: &str, value: String) -> KeyValue {
    match label {
        "queue" => KeyValue::new("messaging.destination.name", value),
        "operation" => KeyValue::new("messaging.operation.name", value),
        "error_type" => KeyValue::new("error.type", value),
        other => KeyValue::new(format!("jobs.{other}"), value),
    }
}

impl OpenTelemetryRecorder {
    /// Creates a recorder whose instruments belong to this meter.
    pub fn new(meter: Meter) -> Self {
        let counter = |metric: &Metric| {
            meter.u64_counter(metric.name).with_unit(metric.unit).with_description(metric.help).build()
        };
        let histogram = |metric: &Metric, bounds: &[f64]| {
            let histogram = meter.f64_histogram(metric.name).with_unit(metric.unit).with_description(metric.help);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        Self {
            attributes: ByJob::default(),
            sent: counter(&names::SENT),
            received: counter(&names::RECEIVED),
            attempts: counter(&names::ATTEMPTS),
            leases_lost: counter(&names::LEASES_LOST),
            claims_refused: counter(&names::CLAIMS_REFUSED),
            polls: counter(&names::POLLS),
            rescued: counter(&names::RESCUED),
            pruned: counter(&names::PRUNED),
            fires: counter(&names::SCHEDULE_FIRES),
            errors: counter(&names::DATABASE_ERRORS),
            actions: counter(&names::OPERATOR_ACTIONS),
            process: histogram(&names::PROCESS, &names::SECONDS),
            storage: histogram(&names::STORAGE, &names::SECONDS),
            wait: histogram(&names::WAIT, &names::SECONDS),
            claim_size: histogram(&names::CLAIM_SIZE, &names::CLAIM_SIZES),
            meter,
        }
    }

    /// Also observes the gauges of this worker, such as running jobs, slots and the age of the heartbeat, each time the
    /// metrics are collected.
    pub fn observe(&self, worker: &WorkerHandle) {
        for metric in names::OF_WORKER {
            let worker = worker.clone();
            let gauge =
                self.meter.f64_observable_gauge(metric.name).with_unit(metric.unit).with_description(metric.help);
            gauge
                .with_callback(move |observer| {
                    let own = Gauge::of_worker(&worker).into_iter().filter(|gauge| gauge.metric.name == metric.name);
                    for Gauge { metric, labels, value, .. } in own {
                        let attributes = metric.labels.iter().zip(labels).map(|(label, value)| attribute(label, value));
                        observer.observe(value, &std::iter::once(system()).chain(attributes).collect::<Vec<_>>());
                    }
                })
                .build();
        }
    }

    fn attributes(&self, queue: &str, kind: &str) -> Vec<KeyValue> {
        let attributes = self.attributes.get(queue, kind, |queue, kind| {
            [system(), attribute("queue", queue.to_owned()), attribute("kind", kind.to_owned())]
        });
        attributes.to_vec()
    }
}

impl Recorder for OpenTelemetryRecorder {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Sent { queue, kind, jobs } => self.sent.add(jobs as u64, &self.attributes(queue, kind)),
            Event::Claimed { jobs } => self.claim_size.record(jobs as f64, &[system()]),
            Event::Received { queue, kind, jobs } => self.received.add(jobs as u64, &self.attributes(queue, kind)),
            Event::AttemptEnded { queue, kind, outcome, error, wait, run } => {
                let mut attributes = self.attributes(queue, kind);
                if let Some(wait) = wait {
                    self.wait.record(wait.as_secs_f64(), &attributes);
                }
                attributes.extend(error.map(|error| KeyValue::new("error.type", error.as_str())));
                if let Some(run) = run {
                    self.process.record(run.as_secs_f64(), &attributes);
                }
                attributes.push(KeyValue::new("jobs.outcome", outcome.as_str()));
                self.attempts.add(1, &attributes);
            }
            Event::LeaseLost { queue, kind } => self.leases_lost.add(1, &self.attributes(queue, kind)),
            Event::Rescued { jobs, outcome } => {
                let outcome = KeyValue::new("jobs.outcome", outcome.as_str());
                self.rescued.add(jobs as u64, &[system(), outcome]);
            }
            Event::Pruned { jobs } => self.pruned.add(jobs as u64, &[system()]),
            Event::ScheduleFired { kind, jobs } => {
                let [system, _, kind] = &*self.attributes.get("", kind, |_, kind| {
                    [system(), attribute("queue", String::new()), attribute("kind", kind.to_owned())]
                });
                self.fires.add(jobs as u64, &[system.clone(), kind.clone()]);
            }
            Event::StorageOperation { operation, took, error } => {
                let mut attributes = vec![system(), KeyValue::new("messaging.operation.name", operation)];
                attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
                self.storage.record(took.as_secs_f64(), &attributes);
                if error.is_some() {
                    self.errors.add(1, &attributes);
                }
            }
            Event::Polled => self.polls.add(1, &[system()]),
            Event::ClaimRefused => self.claims_refused.add(1, &[system()]),
            Event::OperatorAction { action, jobs } => {
                self.actions.add(jobs as u64, &[system(), attribute("action", action.to_owned())]);
            }
            // Events of later versions have no metric here.
            _ => {}
        }
    }
}
