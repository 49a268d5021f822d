//! The statement at which a handler crashes.

use std::sync::{Arc, Mutex, PoisonError};

use diesel::connection::{Instrumentation, InstrumentationEvent};

/// Counts the statements of a connection, and panics before one of them is sent.
#[derive(Clone, Debug)]
pub struct CrashPoint(Arc<Mutex<Counted>>);

#[derive(Debug)]
struct Counted {
    at: usize,
    seen: usize,
    statement: Option<String>,
}

impl CrashPoint {
    /// Crashes at this statement, from 1.
    pub(super) fn at(statement: usize) -> Self {
        Self(Arc::new(Mutex::new(Counted { at: statement, seen: 0, statement: None })))
    }

    /// The SQL of the statement at which it has crashed.
    pub(super) fn statement(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).statement.clone()
    }

    /// What the connection calls.
    pub(super) fn instrumentation(&self) -> impl Instrumentation {
        let counted = self.0.clone();
        move |event: InstrumentationEvent<'_>| {
            let InstrumentationEvent::StartQuery { query, .. } = event else { return };
            let text = query.to_string();
            if ends_or_begins(&text) {
                return;
            }
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.seen += 1;
            if counted.seen == counted.at {
                // The values of the statement may be secrets.
                counted.statement = text.split(" -- binds").next().map(str::to_owned);
                drop(counted);
                // The panic hook is not called, so no message is printed.
                std::panic::resume_unwind(Box::new("a crash of the test"));
            }
        }
    }
}

/// Whether a statement begins or ends a transaction or a savepoint. Some of these are the kit's own.
fn ends_or_begins(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    ["begin", "savepoint", "release", "rollback", "commit"].iter().any(|word| first.eq_ignore_ascii_case(word))
}
