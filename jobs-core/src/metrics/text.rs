//! A recorder that keeps all metrics, and writes them as a text for Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::by_job::ByJob;
use super::gauges::Gauge;
use super::histogram::Histogram;
use super::names::{self, CLAIM_SIZES, SECONDS};
use super::page::Page;
use super::series::{Seconds, Series};
use crate::recorder::{Event, Recorder, RescueOutcome};

/// What reads gauges.
type Source = Box<dyn Fn() -> Vec<Gauge> + Send + Sync>;
/// An operation of the storage, and the name of its error, or an empty text.
type Operation = (&'static str, &'static str);

/// Keeps all metrics of a worker, and writes them in the text format of Prometheus. It needs no crate for metrics.
///
/// `worker run --listen` serves it as `/metrics`. Programs with a server of their own give it to their worker, and
/// answer a request with [`render`](Self::render):
///
/// ```no_run
/// # use std::sync::Arc;
/// # use diesel_jobs_core::{MetricsText, Worker, WorkerError, storage::Storage};
/// # fn run(storage: Arc<dyn Storage>) -> Result<(), WorkerError> {
/// let metrics = Arc::new(MetricsText::new());
/// let worker = Worker::builder(storage).recorder(metrics.clone()).build()?;
/// metrics.watch(worker.handle());
/// // In the handler of `GET /metrics`, with the content type `MetricsText::CONTENT_TYPE`:
/// let body: String = metrics.render();
/// # Ok(())
/// # }
/// ```
pub struct MetricsText {
    jobs: ByJob<Series>,
    fires: ByJob<AtomicU64>,
    operations: RwLock<BTreeMap<Operation, Arc<Seconds>>>,
    actions: Mutex<BTreeMap<String, u64>>,
    claim_size: Histogram<{ CLAIM_SIZES.len() }>,
    claims_refused: AtomicU64,
    polls: AtomicU64,
    rescued: [AtomicU64; RescueOutcome::ALL.len()],
    pruned: AtomicU64,
    sources: Mutex<Vec<Source>>,
}

impl std::fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsText").finish_non_exhaustive()
    }
}

impl Default for MetricsText {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            jobs: ByJob::default(),
            fires: ByJob::default(),
            operations: RwLock::default(),
            actions: Mutex::default(),
            claim_size: Histogram::new(&CLAIM_SIZES),
            claims_refused: zero(),
            polls: zero(),
            rescued: Default::default(),
            pruned: zero(),
            sources: Mutex::default(),
        }
    }
}

impl MetricsText {
    /// The content type of the text.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// No metric has a value yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also writes the gauges of this worker: running jobs, slots, the age of the heartbeat and so on.
    pub fn watch(&self, worker: crate::WorkerHandle) {
        self.gauges(move || Gauge::of_worker(&worker));
    }

    /// Also writes the gauges that this function reads. No two functions may return the same metric with the same
    /// labels.
    pub fn gauges(&self, read: impl Fn() -> Vec<Gauge> + Send + Sync + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(read));
    }

    /// Writes all metrics.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        self.write_jobs(&mut page);
        for (_, kind, fires) in self.fires.all() {
            page.sample(&names::SCHEDULE_FIRES, &[&kind], read(&fires));
        }
        self.write_operations(&mut page);
        for (action, jobs) in &*self.actions.lock().unwrap_or_else(PoisonError::into_inner) {
            page.sample(&names::OPERATOR_ACTIONS, &[action], *jobs as f64);
        }
        page.histogram(&names::CLAIM_SIZE, &[], &self.claim_size.snapshot());
        page.sample(&names::CLAIMS_REFUSED, &[], read(&self.claims_refused));
        page.sample(&names::POLLS, &[], read(&self.polls));
        for (outcome, jobs) in RescueOutcome::ALL.iter().zip(&self.rescued) {
            page.sample(&names::RESCUED, &[outcome.as_str()], read(jobs));
        }
        page.sample(&names::PRUNED, &[], read(&self.pruned));
        for source in &*self.sources.lock().unwrap_or_else(PoisonError::into_inner) {
            for Gauge { metric, labels, value } in source() {
                let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                page.sample(&metric, &labels, value);
            }
        }
        page.render()
    }

    fn write_jobs(&self, page: &mut Page) {
        for (queue, kind, series) in self.jobs.all() {
            let (queue, kind) = (queue.as_str(), kind.as_str());
            let counters = [
                (names::SENT, &series.sent),
                (names::RECEIVED, &series.received),
                (names::LEASES_LOST, &series.leases_lost),
            ];
            for (metric, counter) in counters {
                page.sample(&metric, &[queue, kind], read(counter));
            }
            for (outcome, error, count) in series.attempts() {
                page.sample(&names::ATTEMPTS, &[queue, kind, outcome, error], count as f64);
            }
            page.histogram(&names::WAIT, &[queue, kind], &series.waits.snapshot());
            for (error, runs) in series.runs() {
                page.histogram(&names::PROCESS, &[queue, kind, error], &runs.snapshot());
            }
        }
    }

    fn write_operations(&self, page: &mut Page) {
        for ((operation, error), took) in &*self.operations.read().unwrap_or_else(PoisonError::into_inner) {
            let took = took.snapshot();
            page.histogram(&names::STORAGE, &[operation, error], &took);
            if !error.is_empty() {
                page.sample(&names::DATABASE_ERRORS, &[operation, error], took.count as f64);
            }
        }
    }

    fn job(&self, queue: &str, kind: &str) -> Arc<Series> {
        self.jobs.get(queue, kind, |_, _| Series::new())
    }

    fn operation(&self, operation: Operation) -> Arc<Seconds> {
        if let Some(known) = self.operations.read().unwrap_or_else(PoisonError::into_inner).get(&operation) {
            return known.clone();
        }
        let mut operations = self.operations.write().unwrap_or_else(PoisonError::into_inner);
        operations.entry(operation).or_insert_with(|| Arc::new(Histogram::new(&SECONDS))).clone()
    }
}

impl Recorder for MetricsText {
    fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Sent { queue, kind, jobs } => add(&self.job(queue, kind).sent, jobs),
            Event::Claimed { jobs } => self.claim_size.add(jobs as f64),
            Event::Received { queue, kind, jobs } => add(&self.job(queue, kind).received, jobs),
            Event::AttemptEnded { queue, kind, outcome, error, wait, run } => {
                self.job(queue, kind).attempt_ended(outcome, error, wait, run);
            }
            Event::LeaseLost { queue, kind } => add(&self.job(queue, kind).leases_lost, 1),
            Event::Rescued { jobs, outcome } => add(&self.rescued[outcome as usize], jobs),
            Event::Pruned { jobs } => add(&self.pruned, jobs),
            Event::ScheduleFired { kind, jobs } => add(&self.fires.get("", kind, |_, _| AtomicU64::new(0)), jobs),
            Event::StorageOperation { operation, took, error } => {
                self.operation((operation, error.unwrap_or_default())).add(took.as_secs_f64());
            }
            Event::Polled => add(&self.polls, 1),
            Event::ClaimRefused => add(&self.claims_refused, 1),
            Event::OperatorAction { action, jobs } => {
                let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
                *actions.entry(action.to_owned()).or_default() += jobs as u64;
            }
        }
    }
}

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}
