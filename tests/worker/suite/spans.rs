//! Each operation of a worker's storage has a span with its duration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use diesel_jobs::{JobState, job};
use support::{Db, Running, registry};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

#[job]
async fn nothing() {}

/// The longest duration of each operation, in milliseconds.
#[derive(Clone, Default)]
struct Operations(Arc<Mutex<BTreeMap<String, f64>>>);

#[derive(Default)]
struct Fields {
    operation: Option<String>,
    ms: Option<f64>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "storage.operation" {
            self.operation = Some(value.to_owned());
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "storage.ms" {
            self.ms = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Operations {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        ctx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let span = ctx.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        let fields: &mut Fields = extensions.get_mut().unwrap();
        values.record(fields);
        if let (Some(operation), Some(ms)) = (&fields.operation, fields.ms) {
            let mut operations = self.0.lock().unwrap();
            let longest = operations.entry(operation.clone()).or_default();
            *longest = longest.max(ms);
        }
    }
}

async fn each_verb_has_a_span_with_its_time(db: Db) {
    let operations = Operations::default();
    let listening = operations.clone();
    // Everything runs on one thread, because the subscriber is set for one thread.
    let run = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = subscriber::set_default(tracing_subscriber::registry().with(listening));
        // Other tests run on other threads without a subscriber, and one that is the first to reach a span would switch
        // it off. Beside a second subscriber, the subscribers of all threads are asked.
        let _second = tracing::Dispatch::new(tracing_subscriber::registry());
        tracing::callsite::rebuild_interest_cache();
        runtime.block_on(async {
            let id = db.enqueue(Nothing {}).await;
            let worker = Running::start(db.worker(registry![Nothing]));
            db.await_state(id, JobState::Completed).await;
            worker.stop().await;
        });
    });
    run.await.unwrap();
    let seen = operations.0.lock().unwrap().clone();
    for operation in ["check_schema", "register", "claim", "finish", "deregister"] {
        let ms = seen.get(operation).unwrap_or_else(|| panic!("no span of {operation}: {seen:?}"));
        assert!(*ms > 0.0, "{operation}: {seen:?}");
    }
}

support::on_each_database! {
    each_verb_has_a_span_with_its_time,
}
