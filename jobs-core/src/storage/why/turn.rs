//! What a due job waits for if workers serve its queue and know its kind.

use super::super::{MOST_AHEAD, Surroundings};
use super::Reason;
use crate::lease::WorkerId;
use crate::record::{JobRecord, WorkerRecord};

/// From this many crashes on, a job runs alone. This is the default of workers; `--max-crashes` changes it.
const QUARANTINED_AT: u16 = 2;

/// What a due job waits for if workers serve it.
pub(super) fn in_turn(
    job: &JobRecord,
    serving: &[&WorkerRecord],
    slots: Option<u32>,
    around: &Surroundings,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if job.crashes >= QUARANTINED_AT {
        reasons.push(Reason::Quarantined { crashes: job.crashes });
    }
    let known: Option<Vec<u32>> = serving.iter().map(|worker| worker.slots_of(&job.queue, slots)).collect();
    let slots: Option<u64> = known.map(|slots| slots.into_iter().map(u64::from).sum());
    if let Some(slots) = in_all(serving, &around.busy).filter(|_| slots != Some(0)) {
        reasons.push(Reason::WorkersBusy { slots, workers: serving.len() });
    } else if let Some(slots) = slots.filter(|slots| around.running_count >= *slots) {
        reasons.push(Reason::SlotsBusy { slots, running: around.running.clone() });
    }
    if around.ahead > 0 {
        reasons.push(Reason::Behind { jobs: around.ahead.min(MOST_AHEAD), more: around.ahead > MOST_AHEAD });
    }
    reasons
}

/// How many slots these workers have in all their queues together, if all of them are taken.
fn in_all(serving: &[&WorkerRecord], busy: &[(WorkerId, u64)]) -> Option<u64> {
    let running = |worker: &WorkerRecord| busy.iter().find(|(id, _)| *id == worker.id).map_or(0, |(_, jobs)| *jobs);
    let taken = |worker: &&WorkerRecord| {
        let slots = u64::from(worker.slots_total?);
        (running(worker) >= slots).then_some(slots)
    };
    serving.iter().map(taken).sum()
}
