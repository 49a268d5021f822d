//! The adapter for the crate `metrics`, with the exporter for Prometheus.

use std::sync::Arc;

use diesel_jobs::handler::ResultExt as _;
use diesel_jobs::metrics::MetricsRecorder;
use diesel_jobs::metrics::names;
use diesel_jobs::{JobError, JobState, job};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::{Db, Running, registry};

#[job]
async fn counted() {}

#[job]
async fn counted_failure() -> Result<(), JobError> {
    Err(std::io::Error::other("no")).fatal()
}

#[test]
fn the_exporter_of_the_crate_metrics_shows_what_a_worker_does() {
    let exporter = PrometheusBuilder::new().set_buckets(&names::SECONDS).unwrap().build_recorder();
    let exported = exporter.handle();
    metrics::set_global_recorder(exporter).unwrap();
    support::run(Db::sqlite(), async move |db| {
        let done = db.enqueue(Counted {}).await;
        let failed = db.enqueue(CountedFailure {}).await;
        let recorder = Arc::new(MetricsRecorder::new());
        let worker = Running::start(db.worker(registry![Counted, CountedFailure]).recorder(recorder.clone()));
        db.await_state(done, JobState::Completed).await;
        db.await_state(failed, JobState::Discarded).await;
        recorder.publish(worker.handle());
        worker.stop().await;

        let text = exported.render();
        let has = |name: &str, labels: &[&str], value: &str| {
            text.lines().any(|line| {
                line.starts_with(name) && line.ends_with(value) && labels.iter().all(|label| line.contains(label))
            })
        };
        for (name, labels, value) in [
            ("jobs_attempts_total", &["kind=\"counted\"", "queue=\"default\"", "outcome=\"completed\""][..], " 1"),
            (
                "jobs_attempts_total",
                &["kind=\"counted_failure\"", "error_type=\"error\"", "outcome=\"discarded\""],
                " 1",
            ),
            ("messaging_client_consumed_messages_total", &["kind=\"counted\""], " 1"),
            ("messaging_process_duration_seconds_bucket", &["kind=\"counted\"", "le=\"3600\""], " 1"),
            ("jobs_wait_duration_seconds_count", &["kind=\"counted\""], " 1"),
            ("jobs_slots", &["queue=\"default\""], " 16"),
        ] {
            assert!(has(name, labels, value), "{name} {labels:?} is missing in\n{text}");
        }
        assert!(text.contains("# HELP jobs_attempts_total Attempts that have ended"), "{text}");
    });
}
