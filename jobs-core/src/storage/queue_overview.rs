//! The queues as every view shows them: their jobs, who serves them, and what operators have set. All views take the
//! numbers from here, so that they agree.

use std::collections::BTreeMap;

use serde::Serialize;

use super::runtime_settings::{Pause, QueueSettings};
use crate::queue_pattern::is_pattern;
use crate::record::WorkerRecord;
use crate::stats::QueueStats;

/// A queue that has jobs, a setting, a pause or a live worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueOverview {
    /// Its name.
    pub name: String,
    /// Its jobs that wait or run.
    pub jobs: QueueStats,
    /// How many live workers claim its jobs.
    pub workers: usize,
    /// How many further live workers serve it and claim nothing: they drain, or an operator has asked them to be quiet
    /// or to stop.
    pub quiet: usize,
    /// How many of its jobs the workers that claim run at once, all together.
    pub total_slots: u64,
    /// What an operator has set for each worker. `None`: as many as the worker was started with.
    pub slots: Option<u32>,
    /// The pause, while it is paused.
    pub paused: Option<Pause>,
}

impl QueueOverview {
    /// A queue of which nothing is known.
    pub fn empty(name: &str) -> Self {
        let (jobs, name) = (QueueStats::empty(name), name.to_owned());
        Self { name, jobs, workers: 0, quiet: 0, total_slots: 0, slots: None, paused: None }
    }

    /// Who serves it, in words: `2 workers`, `1 worker, 1 quiet`, `nobody`.
    pub fn served_by(&self) -> String {
        let workers = match self.workers {
            0 => "nobody".to_owned(),
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        };
        if self.quiet == 0 { workers } else { format!("{workers}, {} quiet", self.quiet) }
    }

    /// Whether jobs wait in it that no worker claims, although it is not paused.
    pub fn is_neglected(&self) -> bool {
        self.workers == 0 && self.paused.is_none() && self.jobs.waiting().jobs > 0
    }
}

/// Puts together what is known of each queue, by name.
pub fn queue_overview(
    stats: Vec<QueueStats>,
    settings: Vec<QueueSettings>,
    workers: &[WorkerRecord],
) -> Vec<QueueOverview> {
    let mut queues: BTreeMap<String, QueueOverview> = BTreeMap::new();
    for jobs in stats {
        let queue = QueueOverview::empty(&jobs.queue);
        queues.insert(jobs.queue.clone(), QueueOverview { jobs, ..queue });
    }
    for QueueSettings { name, paused, slots } in settings {
        let queue = queues.entry(name).or_insert_with_key(|name| QueueOverview::empty(name));
        (queue.slots, queue.paused) = (slots, paused);
    }
    let alive = || workers.iter().filter(|worker| worker.alive);
    for name in alive().flat_map(|worker| &worker.queues).filter(|name| !is_pattern(name)) {
        queues.entry(name.clone()).or_insert_with(|| QueueOverview::empty(name));
    }
    for queue in queues.values_mut() {
        for worker in alive().filter(|worker| worker.serves(&queue.name)) {
            if worker.claims() {
                queue.workers += 1;
                // A worker of an earlier version does not say how many slots it has.
                queue.total_slots += u64::from(worker.slots_of(&queue.name, queue.slots).unwrap_or_default());
            } else {
                queue.quiet += 1;
            }
        }
    }
    queues.into_values().collect()
}

/// Says that no worker claims the jobs of a queue. `None` if one does.
pub fn unserved(queue: &str, workers: &[WorkerRecord]) -> Option<String> {
    let serving = || workers.iter().filter(move |worker| worker.alive && worker.serves(queue));
    if serving().any(WorkerRecord::claims) {
        return None;
    }
    Some(match serving().count() {
        0 => format!("no live worker serves the queue `{queue}`"),
        1 => format!(
            "the only live worker that serves the queue `{queue}` drains or was asked to be quiet or to stop, so it claims nothing"
        ),
        quiet => format!(
            "all {quiet} live workers that serve the queue `{queue}` drain or were asked to be quiet or to stop, so they claim nothing"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::worker_state::tests::worker;
    use super::*;
    use crate::asked::Asked;
    use crate::stats::Depth;

    fn set(name: &str, slots: Option<u32>, paused: bool) -> QueueSettings {
        QueueSettings { name: name.to_owned(), paused: paused.then(Pause::default), slots }
    }

    fn with_jobs(name: &str) -> QueueStats {
        QueueStats { available: Depth { jobs: 3, is_exact: true }, ..QueueStats::empty(name) }
    }

    #[test]
    fn queues_with_jobs_settings_pauses_or_workers_are_listed_with_who_serves_them() {
        let workers = [
            worker(&[("mail", 4), ("slow", 2)], true, None),
            worker(&[("mail", 6)], true, None),
            worker(&[("mail", 8), ("old", 1)], true, Some(Asked::Quiet)),
            worker(&[("dead", 1)], false, None),
        ];
        let settings = vec![set("paused", None, true), set("slow", Some(0), false)];
        let queues = queue_overview(vec![with_jobs("lost"), with_jobs("old"), with_jobs("paused")], settings, &workers);
        let seen: Vec<(&str, String, u64, Option<u32>, bool)> = queues
            .iter()
            .map(|queue| (queue.name.as_str(), queue.served_by(), queue.total_slots, queue.slots, queue.is_neglected()))
            .collect();
        assert_eq!(
            seen,
            [
                ("lost", "nobody".to_owned(), 0, None, true),
                ("mail", "2 workers, 1 quiet".to_owned(), 10, None, false),
                ("old", "nobody, 1 quiet".to_owned(), 0, None, true),
                ("paused", "nobody".to_owned(), 0, None, false),
                ("slow", "1 worker".to_owned(), 0, Some(0), false),
            ]
        );
    }

    #[test]
    fn a_pattern_counts_for_each_queue_that_fits_and_is_no_queue() {
        let workers = [worker(&[("tenant-*", 4)], true, None), worker(&[("tenant-7", 1), ("*", 2)], true, None)];
        let queues = queue_overview(vec![with_jobs("lost"), with_jobs("tenant-8")], Vec::new(), &workers);
        let seen = queues.iter().map(|queue| (queue.name.as_str(), queue.workers, queue.total_slots));
        assert_eq!(seen.collect::<Vec<_>>(), [("lost", 1, 2), ("tenant-7", 2, 5), ("tenant-8", 2, 6)]);
        assert_eq!(unserved("tenant-9", &workers), None);
        assert!(unserved("lost", &workers[..1]).is_some());
    }

    #[test]
    fn a_queue_is_served_by_workers_that_claim() {
        let says = |workers: &[WorkerRecord]| unserved("mail", workers);
        let (dead, quiet) = (worker(&[("mail", 1)], false, None), worker(&[("mail", 1)], true, Some(Asked::Stop)));
        assert!(says(&[dead, worker(&[("slow", 1)], true, None)]).unwrap().starts_with("no live worker serves"));
        assert!(says(std::slice::from_ref(&quiet)).unwrap().contains("the only live worker"));
        assert!(says(&[quiet.clone(), quiet.clone()]).unwrap().starts_with("all 2 live workers"));
        assert_eq!(says(&[quiet, worker(&[("mail", 1)], true, None)]), None);
    }
}
