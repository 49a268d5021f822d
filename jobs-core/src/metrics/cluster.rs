//! The gauges of all jobs and workers of a database. They come from the same counts as `stats`, so they cost little.

use std::collections::{BTreeMap, HashSet};

use super::gauges::Gauge;
use super::names::{self, ALWAYS, MOST_LABELS, OTHER};
use crate::stats::Stats;
use crate::storage::{Operator, StorageResult};

impl Gauge {
    /// Reads the gauges of a database: depths by queue, jobs by kind and state, the oldest due job, pauses, halted
    /// sequences, workers.
    pub async fn of_database(operator: &dyn Operator) -> StorageResult<Vec<Self>> {
        let stats = operator.stats().await?;
        let mut gauges = of_stats(&stats);
        let workers = operator.workers().await?;
        let alive = workers.iter().filter(|worker| worker.alive).count();
        gauges.push(Self::labelled(names::WORKERS, &["alive"], alive as f64));
        gauges.push(Self::labelled(names::WORKERS, &["dead"], (workers.len() - alive) as f64));
        let queues = operator.queues().await?.into_iter().filter(|queue| queue.paused.is_some());
        gauges.push(Self::labelled(names::PAUSED, &["queues"], queues.count() as f64));
        let kinds = operator.kinds().await?.into_iter().filter(|kind| kind.paused.is_some());
        gauges.push(Self::labelled(names::PAUSED, &["kinds"], kinds.count() as f64));
        gauges.push(Self::of(names::SEQUENCES_HALTED, operator.count_halted().await?.jobs as f64));
        if let Some(dead) = operator.dead_rows().await? {
            gauges.push(Self::of(names::DEAD_ROWS, dead.rows as f64));
            gauges.push(Self::of(names::SNAPSHOT_AGE, dead.snapshot_seconds));
        }
        Ok(gauges)
    }
}

/// At most [`MOST_LABELS`] names keep their own label, those that come first.
struct Capped<'a>(HashSet<&'a str>);

impl<'a> Capped<'a> {
    fn new(names: impl Iterator<Item = &'a str>) -> Self {
        let mut own = HashSet::new();
        for name in names {
            if own.len() < MOST_LABELS {
                own.insert(name);
            }
        }
        Self(own)
    }

    fn label<'b>(&self, name: &'b str) -> &'b str {
        if self.0.contains(name) { name } else { OTHER }
    }
}

fn of_stats(stats: &Stats) -> Vec<Gauge> {
    let mut largest: Vec<(&str, i64)> =
        stats.queues.iter().map(|queue| (queue.queue.as_str(), queue.waiting().jobs + queue.running)).collect();
    largest.sort_by_key(|(queue, jobs)| (*queue != ALWAYS, std::cmp::Reverse(*jobs)));
    let others = stats.kinds.iter().map(|kind| kind.queue.as_str());
    let queues = Capped::new(largest.into_iter().map(|(queue, _)| queue).chain(others));
    let mut by_size: Vec<(&str, i64)> =
        stats.kinds.iter().map(|kind| (kind.kind.as_str(), kind.available + kind.running + kind.completed)).collect();
    by_size.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    let kinds = Capped::new(by_size.into_iter().map(|(kind, _)| kind));

    let mut depths: BTreeMap<[&str; 2], i64> = BTreeMap::new();
    let mut oldest: BTreeMap<&str, f64> = BTreeMap::new();
    for queue in &stats.queues {
        let label = queues.label(&queue.queue);
        let states = [
            ("available", queue.available.jobs),
            ("later", queue.later.jobs),
            ("held", queue.held.jobs),
            ("running", queue.running),
        ];
        for (state, jobs) in states {
            *depths.entry([label, state]).or_default() += jobs;
        }
        let age = oldest.entry(label).or_default();
        *age = age.max(queue.oldest_wait_seconds.unwrap_or_default());
    }
    let mut stored: BTreeMap<[&str; 3], i64> = BTreeMap::new();
    for kind in &stats.kinds {
        let states = [
            ("available", kind.available),
            ("scheduled", kind.scheduled),
            ("retrying", kind.retrying),
            ("held", kind.held),
            ("running", kind.running),
            ("completed", kind.completed),
            ("cancelled", kind.cancelled),
            ("discarded", kind.discarded),
        ];
        for (state, jobs) in states.into_iter().filter(|(_, jobs)| *jobs > 0) {
            *stored.entry([queues.label(&kind.queue), kinds.label(&kind.kind), state]).or_default() += jobs;
        }
    }
    let mut gauges: Vec<Gauge> = Vec::new();
    gauges.extend(depths.iter().map(|(labels, jobs)| Gauge::labelled(names::QUEUE_DEPTH, labels, *jobs as f64)));
    gauges.extend(oldest.iter().map(|(queue, age)| Gauge::labelled(names::OLDEST_DUE_AGE, &[queue], *age)));
    gauges.extend(stored.iter().map(|(labels, jobs)| Gauge::labelled(names::STORED, labels, *jobs as f64)));
    gauges.extend(stats.counted.age_seconds.map(|age| Gauge::of(names::SAMPLE_AGE, age)));
    gauges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Counted, Depth, KindStats, QueueStats};

    #[test]
    fn after_a_hundred_queues_the_smaller_ones_share_a_label() {
        let queue = |number: i64| QueueStats {
            available: Depth { jobs: number, is_exact: true },
            oldest_wait_seconds: Some(number as f64),
            ..QueueStats::empty(format!("q{number}"))
        };
        let kind = |number: i64| KindStats {
            queue: format!("q{number}"),
            kind: format!("k{number}"),
            available: number,
            ..KindStats::default()
        };
        let stats = Stats {
            queues: (1..=150).map(queue).chain([QueueStats::empty(ALWAYS.to_owned())]).collect(),
            kinds: (1..=150).map(kind).collect(),
            counted: Counted { now: true, age_seconds: Some(0.0), resting: None },
        };
        let gauges = of_stats(&stats);
        let value = |metric: names::Metric, labels: &[&str]| {
            let found: Vec<f64> = gauges
                .iter()
                .filter(|gauge| gauge.metric.name == metric.name && gauge.labels == labels)
                .map(|gauge| gauge.value)
                .collect();
            assert_eq!(found.len(), 1, "{labels:?}");
            found[0]
        };
        let (of_others, of_small_kinds): (i64, i64) = ((1..=51).sum(), (1..=50).sum());
        assert_eq!(value(names::QUEUE_DEPTH, &[OTHER, "available"]), of_others as f64);
        assert_eq!(value(names::QUEUE_DEPTH, &["q52", "available"]), 52.0);
        assert_eq!(value(names::QUEUE_DEPTH, &[ALWAYS, "available"]), 0.0, "it has its place, although it is empty");
        assert_eq!(value(names::OLDEST_DUE_AGE, &[OTHER]), 51.0);
        assert_eq!(value(names::STORED, &[OTHER, OTHER, "available"]), of_small_kinds as f64);
        assert_eq!(value(names::SAMPLE_AGE, &[]), 0.0);
    }
}
