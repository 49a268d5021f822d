//! Counts the statements of this process, on both databases.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};

static SENT: AtomicU64 = AtomicU64::new(0);

struct Counter;

impl Instrumentation for Counter {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if matches!(event, InstrumentationEvent::StartQuery { .. }) {
            SENT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts from now on, on connections that are opened from now on.
pub(crate) fn count() -> Result<()> {
    set_default_instrumentation(|| Some(Box::new(Counter))).context("counting statements")
}

/// How many statements were sent so far.
pub(crate) fn sent() -> u64 {
    SENT.load(Ordering::Relaxed)
}
