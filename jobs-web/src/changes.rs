//! What operators have set and nobody has taken back: pauses, slots, limits, requests to workers, changed schedules. It
//! is one list, because a setting that was forgotten is a common reason for jobs that do not run.

use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::WorkerRecord;
use diesel_jobs_core::storage::{KindSettings, LimitSetting, QueueSettings, ScheduleRecord, StorageResult};

use crate::link::Base;
use crate::site::Site;

/// Schedules are read again in the background after the first time, and none are shown that are older than the second
/// one.
const KEPT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// A setting of an operator.
pub(crate) struct Change {
    /// What was changed: a queue, a kind.
    pub(crate) what: &'static str,
    pub(crate) name: String,
    /// The page on which it is shown, and can be taken back.
    pub(crate) url: String,
    /// How it was changed.
    pub(crate) how: String,
}

/// All schedules, not much older than the page.
pub(crate) async fn schedules(site: &Site) -> StorageResult<Arc<Vec<ScheduleRecord>>> {
    let operator = Arc::clone(site.shared_operator());
    let read = async move { operator.list_schedules().await.map(|(schedules, _)| Arc::new(schedules)) };
    site.schedules.recent((), KEPT, read).await
}

/// The settings of operators, what stops jobs first.
pub(crate) fn changes(
    base: &Base,
    (queues, kinds, limits): (&[QueueSettings], &[KindSettings], &[LimitSetting]),
    workers: &[WorkerRecord],
    schedules: &[ScheduleRecord],
) -> Vec<Change> {
    let named = |what, path: &str, name: &str, how: String| Change {
        what,
        name: name.to_owned(),
        url: base.with(path, [("name", name)]),
        how,
    };
    let on = |what, path: &str, name: &str, how| Change { url: base.to(path), ..named(what, path, name, how) };
    let paused_queues = queues.iter().filter_map(|queue| Some((queue, queue.paused.as_ref()?)));
    let paused_kinds = kinds.iter().filter_map(|kind| Some((kind, kind.paused.as_ref()?)));
    let asked = workers.iter().filter(|worker| worker.alive && worker.asked.is_some());
    let slots = queues.iter().filter_map(|queue| Some((queue, queue.slots?)));
    paused_queues
        .map(|(queue, pause)| named("queue", "/queues/one", &queue.name, pause.to_string()))
        .chain(paused_kinds.map(|(kind, pause)| named("kind", "/kinds/one", &kind.name, pause.to_string())))
        .chain(schedules.iter().filter_map(|schedule| {
            Some(on("schedule", "/schedules", &schedule.name, schedule.paused.as_ref()?.to_string()))
        }))
        .chain(asked.map(|worker| on("worker", "/workers", &worker.host, worker.state_text())))
        .chain(limits.iter().map(|limit| on("limit", "/limits", &limit.name, limit.to_string())))
        .chain(slots.map(|(queue, slots)| {
            named("queue", "/queues/one", &queue.name, format!("set to {slots} slots in each worker"))
        }))
        .chain(schedules.iter().filter_map(|schedule| {
            let by = schedule.changed_by.as_ref()?;
            Some(on("schedule", "/schedules", &schedule.name, format!("changed by {by}")))
        }))
        .collect()
}
