//! What the overview shows of the database. The last sample is kept for when the database cannot be reached.

use diesel_jobs_core::{Counted, Depth, QueueStats, Stats, WorkerRecord};

use crate::format::{self, depth};

/// So many queues stand on the overview.
const QUEUES: usize = 50;

/// What the overview shows of the database. The last one is kept for when the database cannot be reached.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) stats: Stats,
    pub(crate) alive: usize,
    pub(crate) gone: usize,
}

impl Sample {
    pub(crate) fn new(stats: Stats, workers: &[WorkerRecord]) -> Self {
        let alive = workers.iter().filter(|worker| worker.alive).count();
        Self { stats, alive, gone: workers.len() - alive }
    }

    /// The queues whose jobs wait longest, at most [`QUEUES`], and how many others there are.
    pub(crate) fn longest(&self) -> (Vec<&QueueStats>, usize) {
        let mut queues: Vec<&QueueStats> = self.stats.queues.iter().collect();
        let waited = |queue: &QueueStats| queue.oldest_wait_seconds.unwrap_or(-1.0);
        queues.sort_by(|a, b| waited(b).total_cmp(&waited(a)).then(b.available.jobs.cmp(&a.available.jobs)));
        let others = queues.len().saturating_sub(QUEUES);
        queues.truncate(QUEUES);
        (queues, others)
    }

    pub(crate) fn due(&self) -> String {
        self.sum(|queue| queue.available)
    }

    pub(crate) fn later(&self) -> String {
        self.sum(|queue| queue.later)
    }

    pub(crate) fn held(&self) -> String {
        self.sum(|queue| queue.held)
    }

    /// The sum of a number of all queues.
    fn sum(&self, of: fn(&QueueStats) -> Depth) -> String {
        self.stats.queues.iter().map(of).reduce(|one, other| one + other).map_or_else(|| "0".to_owned(), depth)
    }

    pub(crate) fn running(&self) -> String {
        format::count(self.stats.queues.iter().map(|queue| queue.running).sum::<i64>())
    }

    fn oldest(&self) -> Option<f64> {
        self.stats.queues.iter().filter_map(|queue| queue.oldest_wait_seconds).reduce(f64::max)
    }

    pub(crate) fn oldest_text(&self) -> String {
        self.oldest().map_or_else(|| "–".to_owned(), format::seconds)
    }

    pub(crate) fn discarded(&self) -> String {
        format::count(self.stats.kinds.iter().map(|kind| kind.discarded).sum::<i64>())
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

/// How long the oldest due job of a queue has waited.
pub(crate) fn oldest_text(queue: &QueueStats) -> String {
    queue.oldest_wait_seconds.map_or_else(|| "–".to_owned(), format::seconds)
}
