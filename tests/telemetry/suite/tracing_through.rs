//! One trace goes from an HTTP request through a job to the job that its handler enqueues, and arrives at an OTLP
//! receiver.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use diesel_jobs::otel::{OpenTelemetryRecorder, connect_traces};
use diesel_jobs::{Enqueue as _, Job as _, JobContext, JobError, JobState, State, job};
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::Value;
use support::{Conn, Db, Running, registry, until};
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::otlp::{Client, Receiver, read_with_head};

#[derive(Clone)]
struct Shared(Arc<Db>);

#[job]
async fn parent(State(db): State<Shared>) {
    db.0.enqueue(Child {}).await;
}

#[job]
fn child() {}

#[job(backoff = "fixed(1ms)")]
async fn fails_once(ctx: &JobContext) -> Result<(), JobError> {
    if ctx.attempt() == 1 { Err(JobError::msg("once")) } else { Ok(()) }
}

/// The receiver of this process, and the provider of its traces.
fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(|| {
        let receiver = Receiver::start();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("{}/v1/traces", receiver.endpoint))
            .build()
            .unwrap();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let filter = tracing_subscriber::EnvFilter::new("diesel_jobs=debug,telemetry=info");
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(layer)).unwrap();
        connect_traces();
        receiver
    })
}

/// Answers one HTTP request: enqueues a job, in a span that continues the trace of the request's header.
async fn answer(db: &Db, listener: TcpListener) {
    let (stream, _) = tokio::task::spawn_blocking(move || listener.accept()).await.unwrap().unwrap();
    let (head, _) = read_with_head(&stream);
    let header = head.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
    let part = |number: usize| header.split('-').nth(number).unwrap();
    let (trace, span) = (TraceId::from_hex(part(1)).unwrap(), SpanId::from_hex(part(2)).unwrap());
    let caller = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
    let request = tracing::info_span!("request");
    request.set_parent(opentelemetry::Context::new().with_remote_span_context(caller)).unwrap();
    async {
        match db.conn().await {
            Conn::Postgres(mut conn) => Parent {}.enqueue(&mut *conn).await.unwrap(),
            Conn::Sqlite(mut conn) => Parent {}.enqueue(&mut *conn).unwrap(),
        };
    }
    .instrument(request)
    .await;
    (&stream).write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").unwrap();
}

async fn spans_of(trace: &str, names: &[&str]) -> Vec<Value> {
    until(&format!("the spans {names:?}"), async || {
        let spans: Vec<Value> = receiver().spans().into_iter().filter(|span| span["traceId"] == trace).collect();
        names.iter().all(|name| spans.iter().any(|span| span["name"] == *name)).then_some(spans)
    })
    .await
}

fn one<'a>(spans: &'a [Value], name: &str, kind: Option<&str>) -> &'a Value {
    let has_kind = |span: &Value| {
        kind.is_none_or(|kind| {
            let attributes = span["attributes"].as_array().unwrap();
            attributes
                .iter()
                .any(|attribute| attribute["key"] == "job.kind" && attribute["value"]["stringValue"] == kind)
        })
    };
    let found: Vec<&Value> = spans.iter().filter(|span| span["name"] == name && has_kind(span)).collect();
    assert_eq!(found.len(), 1, "{name} {kind:?} in {spans:#?}");
    found[0]
}

async fn a_request_its_job_and_the_child_job_are_one_trace(db: Db) {
    receiver();
    let trace = if db.is_postgres() { "4bf92f3577b34da6a3ce929d0e0e4736" } else { "5bf92f3577b34da6a3ce929d0e0e4736" };
    let db = Arc::new(db);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let request = format!("POST /orders HTTP/1.1\r\nhost: test\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    answer(&db, listener).await;

    let worker = Running::start(db.worker(registry![Parent, Child]).state(Shared(db.clone())));
    let completed =
        if db.is_postgres() { "jobs.finished where state = 1" } else { "jobs.job where state = 'completed'" };
    db.await_number(2, &format!("select count(*) as number from {completed}")).await;
    worker.stop().await;

    let spans = spans_of(trace, &["request", "send default", "process default"]).await;
    let id = |span: &Value| span["spanId"].as_str().unwrap().to_owned();
    let is_child = |child: &Value, parent: &Value| assert_eq!(child["parentSpanId"], id(parent), "{child:#?}");
    let request = one(&spans, "request", None);
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    let (parent, child) =
        (one(&spans, "process default", Some("parent")), one(&spans, "process default", Some("child")));
    let sends: Vec<&Value> = spans.iter().filter(|span| span["name"] == "send default").collect();
    assert_eq!(sends.len(), 2, "{spans:#?}");
    let by = |sender: &Value| *sends.iter().find(|send| send["parentSpanId"] == id(sender)).unwrap();
    is_child(parent, by(request));
    is_child(child, by(parent));
    // 5 is a consumer, 4 a producer.
    assert_eq!((&parent["kind"], &by(request)["kind"]), (&Value::from(5), &Value::from(4)));
}

async fn retries_and_delayed_jobs_are_linked(db: Db) {
    receiver();
    let enqueue = tracing::info_span!("enqueues");
    let (failing, delayed) =
        async { (db.enqueue(FailsOnce {}).await, db.enqueue(Child {}.delay(Duration::from_millis(1500))).await) }
            .instrument(enqueue.clone())
            .await;
    let trace = enqueue.context().span().span_context().trace_id().to_string();
    drop(enqueue);
    let worker = Running::start(db.worker(registry![FailsOnce, Child]));
    db.await_state(failing, JobState::Completed).await;
    db.await_state(delayed, JobState::Completed).await;
    worker.stop().await;

    let links = |kind: &'static str| {
        let trace = trace.clone();
        until("the linked span", async move || {
            receiver().spans().into_iter().find(|span| {
                let linked =
                    span["links"].as_array().is_some_and(|links| links.iter().any(|link| link["traceId"] == *trace));
                linked && span.to_string().contains(&format!("\"stringValue\":\"{kind}\""))
            })
        })
    };
    for kind in ["fails_once", "child"] {
        let linked = links(kind).await;
        assert_ne!(linked["traceId"], *trace, "a linked attempt has a trace of its own");
    }
    let first = spans_of(&trace, &["process default"]).await;
    one(&first, "process default", Some("fails_once"));
}

async fn claims_and_finishes_have_the_names_of_the_conventions(db: Db) {
    receiver();
    let job = db.enqueue(Child {}).await;
    let worker = Running::start(db.worker(registry![Child]));
    db.await_state(job, JobState::Completed).await;
    worker.stop().await;
    for name in ["receive", "settle"] {
        until(name, async || receiver().spans().iter().any(|span| span["name"] == name).then_some(())).await;
    }
}

async fn metrics_arrive_with_the_names_of_the_conventions(db: Db) {
    let receiver = Receiver::start();
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(Client)
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/metrics", receiver.endpoint))
        .build()
        .unwrap();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
    let recorder = Arc::new(OpenTelemetryRecorder::new(provider.meter("test")));
    let job = db.enqueue(Child {}).await;
    let worker = Running::start(db.worker(registry![Child]).recorder(recorder.clone()));
    recorder.observe(worker.handle());
    db.await_state(job, JobState::Completed).await;
    // The worker counts an attempt after it has stored its end.
    let names = [
        "jobs.attempts",
        "messaging.process.duration",
        "messaging.client.consumed.messages",
        "messaging.client.operation.duration",
        "jobs.wait.duration",
        "jobs.slots",
    ];
    let metrics = until("all metrics are exported", async || {
        let provider = provider.clone();
        tokio::task::spawn_blocking(move || provider.force_flush()).await.unwrap().unwrap();
        let metrics = receiver.metrics();
        names.iter().all(|name| metrics.iter().any(|metric| metric["name"] == *name)).then_some(metrics)
    });
    let metrics = metrics.await;
    worker.stop().await;
    let find = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let attempts = find("jobs.attempts")["sum"]["dataPoints"][0].to_string();
    for part in ["messaging.destination.name", "default", "jobs.kind", "child", "jobs.outcome", "completed"] {
        assert!(attempts.contains(part), "{part} is missing in {attempts}");
    }
    assert_eq!(find("messaging.process.duration")["unit"], "s");
    assert_eq!(
        find("messaging.process.duration")["histogram"]["dataPoints"][0]["explicitBounds"].as_array().unwrap().len(),
        16
    );
}

support::on_each_database! {
    a_request_its_job_and_the_child_job_are_one_trace,
    retries_and_delayed_jobs_are_linked,
    claims_and_finishes_have_the_names_of_the_conventions,
    metrics_arrive_with_the_names_of_the_conventions,
}
