//! What the overview shows of the database. The last sample is kept for when the database cannot be reached.

use diesel_jobs_core::storage::{QueueOverview, QueueSettings, queue_overview};
use diesel_jobs_core::{Counted, Depth, QueueStats, Stats, WorkerRecord};

use crate::format::{self, Amount, depth};
use crate::queue::has_jobs;

/// This many queues are on the overview.
const QUEUES: usize = 50;

/// What the overview shows of the database. The last one is kept for when the database cannot be reached.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    stats: Stats,
    /// All queues that have jobs, live workers or settings, by name.
    queues: Vec<QueueOverview>,
    pub(crate) alive: usize,
    pub(crate) gone: usize,
}

impl Sample {
    pub(crate) fn new(stats: Stats, settings: Vec<QueueSettings>, workers: &[WorkerRecord]) -> Self {
        let alive = workers.iter().filter(|worker| worker.alive).count();
        let queues = queue_overview(stats.queues.clone(), settings, workers);
        Self { stats, queues, alive, gone: workers.len() - alive }
    }

    /// The queues with jobs and the paused ones, those whose jobs wait longest first, at most [`QUEUES`], and how many
    /// others there are.
    pub(crate) fn longest(&self) -> (Vec<&QueueOverview>, usize) {
        let is_shown = |queue: &&QueueOverview| has_jobs(queue) || queue.paused.is_some();
        let mut queues: Vec<&QueueOverview> = self.queues.iter().filter(is_shown).collect();
        let waited = |queue: &QueueOverview| queue.jobs.oldest_wait_seconds.unwrap_or(-1.0);
        queues.sort_by(|a, b| waited(b).total_cmp(&waited(a)).then(b.jobs.available.jobs.cmp(&a.jobs.available.jobs)));
        let others = queues.len().saturating_sub(QUEUES);
        queues.truncate(QUEUES);
        (queues, others)
    }

    /// The queues whose waiting jobs no live worker claims, if there are live workers.
    pub(crate) fn neglected(&self) -> Vec<&QueueOverview> {
        self.queues.iter().filter(|queue| self.alive > 0 && queue.is_neglected()).collect()
    }

    pub(crate) fn due(&self) -> Amount {
        self.sum(|queue| queue.available)
    }

    pub(crate) fn later(&self) -> Amount {
        self.sum(|queue| queue.later)
    }

    pub(crate) fn held(&self) -> Amount {
        self.sum(|queue| queue.held)
    }

    /// The sum of a number of all queues.
    fn sum(&self, of: fn(&QueueStats) -> Depth) -> Amount {
        let none = Depth { jobs: 0, is_exact: true };
        depth(self.stats.queues.iter().map(of).fold(none, |one, other| one + other))
    }

    pub(crate) fn running(&self) -> Amount {
        format::exactly(self.stats.queues.iter().map(|queue| queue.running).sum::<i64>())
    }

    /// The queue whose due jobs wait longest.
    pub(crate) fn oldest(&self) -> Option<&QueueOverview> {
        let mut waiting = self.longest().0.into_iter();
        waiting.next().filter(|queue| queue.jobs.oldest.is_some())
    }

    pub(crate) fn discarded(&self) -> Amount {
        format::exactly(self.stats.kinds.iter().map(|kind| kind.discarded).sum::<i64>())
    }

    pub(crate) fn counted(&self) -> String {
        counted(&self.stats.counted)
    }
}

/// When the jobs were counted by kind, in words.
pub(crate) fn counted(counted: &Counted) -> String {
    let mut text = match (counted.now, counted.age_seconds) {
        (true, _) => "Jobs were counted now.".to_owned(),
        (false, Some(age)) => format!("Ended jobs and kinds were counted {} ago.", format::seconds(age)),
        (false, None) => "Ended jobs and kinds were not counted yet: a worker does it from time to time.".to_owned(),
    };
    if let Some(resting) = &counted.resting {
        text.push_str(&format!(" No newer count is made: {resting}."));
    }
    text
}
