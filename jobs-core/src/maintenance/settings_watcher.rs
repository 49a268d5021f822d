//! The settings watcher: reads the settings of operators once a second, and applies them to the worker. While the
//! worker is idle, it reads them when they have changed.
//!
//! - A queue or kind that was paused: its prefetched jobs are released. The claim itself leaves out paused queues.
//!   Paused kinds are left out of the kinds that the next claims ask for.
//! - A queue or kind that was resumed: the worker claims at once. It also requests a rescan, because the scan floors
//!   are above the jobs that were passed over.
//! - Slots: see `worker/queue.rs`. Retention: the next attempts that end follow it.
//!
//! It needs a reporter, and a worker that ends waits until all reporters are gone. So it ends when the worker begins to
//! drain. Then nothing is claimed any more, and the running jobs end with the retention that was known last.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::pause::{Idle, idle_pause};
use crate::context::JobContext;
use crate::outcome::Transition;
use crate::overrides::Overrides;
use crate::storage::StorageResult;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::idleness::{Call, POLLS};
use crate::worker::report::Reporter;
use crate::worker::shared::Shared;

/// The longest pause between two reads of a worker that is not idle. It is shorter than a second, so that a change
/// takes effect within a second.
const EVERY: Duration = Duration::from_millis(900);

pub(crate) async fn run(shared: Arc<Shared>, reporter: Reporter) {
    let warning = RateLimitedWarning::new("overrides");
    let draining = shared.phases.draining().clone();
    let mut since = shared.idleness.now();
    while idle_pause(&shared, EVERY, Idle { since, polls: POLLS, calls: &[Call::Changes] }, &draining).await {
        let began = shared.idleness.now();
        let paused = tokio::select! {
            paused = read(&shared) => paused,
            () = draining.cancelled() => return,
        };
        match paused {
            Ok(paused) => {
                since = began;
                for job in paused {
                    reporter.report(job, Transition::Release).await;
                }
            }
            Err(problem) => warning.report(&problem),
        }
    }
}

/// Reads the settings, and makes the worker follow them. Returns the prefetched jobs that must be released.
pub(crate) async fn read(shared: &Shared) -> StorageResult<Vec<JobContext>> {
    let _reading = shared.live.reading.lock().await;
    Ok(follow(shared, shared.storage.overrides().await?))
}

/// Makes the worker follow these settings. Returns the prefetched jobs that must be released.
fn follow(shared: &Shared, new: Overrides) -> Vec<JobContext> {
    let new = Arc::new(new);
    let old = shared.live.replace(new.clone());
    if old == new {
        return Vec::new();
    }
    let is_served = |queue: &&String| shared.queues.serve(queue);
    let is_known = |kind: &&String| shared.registry.get(kind).is_some();
    let queues = changes(&old.paused_queues, &new.paused_queues, is_served);
    let kinds = changes(&old.paused_kinds, &new.paused_kinds, is_known);
    let slots = shared.queues.set_slots(&new.slots);
    shared.queues.pause(&new.paused_queues, &new.paused_kinds);
    telemetry::pauses_changed("queue", &queues.paused, &queues.resumed);
    telemetry::pauses_changed("kind", &kinds.paused, &kinds.resumed);
    slots.iter().for_each(|(queue, slots)| telemetry::slots_changed(queue, *slots));
    if !queues.resumed.is_empty() || !kinds.resumed.is_empty() {
        shared.rescan_requested.notify_one();
    }
    if !queues.resumed.is_empty() || !kinds.resumed.is_empty() || !slots.is_empty() {
        shared.wake.notify_one();
    }
    shared.queues.take_paused()
}

/// The names that were paused and resumed, as far as they concern this worker.
struct Changes<'a> {
    paused: Vec<&'a str>,
    resumed: Vec<&'a str>,
}

fn changes<'a>(
    old: &'a BTreeSet<String>,
    new: &'a BTreeSet<String>,
    concerns: impl Fn(&&String) -> bool + Copy,
) -> Changes<'a> {
    let only_in = |one: &'a BTreeSet<String>, other: &'a BTreeSet<String>| {
        one.difference(other).filter(concerns).map(String::as_str).collect()
    };
    Changes { paused: only_in(new, old), resumed: only_in(old, new) }
}
