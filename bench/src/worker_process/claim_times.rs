//! Reports how long each claim takes.

use diesel_jobs::metrics::{Event, Recorder};

use crate::say::say;

pub(super) struct ClaimTimes;

impl Recorder for ClaimTimes {
    fn record(&self, event: &Event<'_>) {
        if let Event::StorageOperation { operation: "claim", took, .. } = event {
            say(&format!("claimed {}", took.as_micros()));
        }
    }
}
