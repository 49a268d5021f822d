//! Values that are read when the metrics are asked for.

use super::names::{self, Metric};
use crate::worker::{QueueLoad, WorkerHandle};

/// A value at this moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gauge {
    /// Which.
    pub metric: Metric,
    /// The values of its labels, in their order.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

impl Gauge {
    /// A value without labels.
    pub fn of(metric: Metric, value: f64) -> Self {
        Self { metric, labels: Vec::new(), value }
    }

    /// A value with these labels.
    pub fn labelled(metric: Metric, labels: &[&str], value: f64) -> Self {
        Self { metric, labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }

    /// The gauges of a worker process.
    pub fn of_worker(worker: &WorkerHandle) -> Vec<Self> {
        let flag = |on: bool| f64::from(u8::from(on));
        let mut gauges = vec![
            Self::of(names::LEASES, worker.in_flight() as f64),
            Self::of(names::DRAINING, flag(worker.is_draining())),
            Self::of(names::FROZEN, flag(worker.is_frozen())),
        ];
        gauges.extend(worker.connections().map(|open| Self::of(names::CONNECTIONS, open as f64)));
        gauges.extend(worker.uptime().map(|time| Self::of(names::UPTIME, time.as_secs_f64())));
        gauges.push(Self::of(names::HEARTBEAT_INTERVAL, worker.heartbeat_interval().as_secs_f64()));
        gauges.extend(worker.heartbeat_age().map(|age| Self::of(names::HEARTBEAT_AGE, age.as_secs_f64())));
        let loads = worker.queues();
        // A worker may serve ten thousand queues. Those that are busy get a label of their own before the others.
        let mut loads: Vec<&QueueLoad> = loads.iter().collect();
        loads.sort_by_key(|load| (load.queue != names::ALWAYS, std::cmp::Reverse(load.running + load.prefetched)));
        let (own, others) = loads.split_at(loads.len().min(names::MOST_LABELS));
        for load in own {
            gauges.extend(Self::of_queue(&load.queue, load.slots, load.running, load.prefetched));
        }
        if !others.is_empty() {
            let sum = |of: fn(&QueueLoad) -> usize| others.iter().map(|load| of(load)).sum();
            let (slots, running) = (sum(|load| load.slots), sum(|load| load.running));
            gauges.extend(Self::of_queue(names::OTHER, slots, running, sum(|load| load.prefetched)));
        }
        gauges
    }

    fn of_queue(queue: &str, slots: usize, running: usize, prefetched: usize) -> [Self; 3] {
        [
            Self::labelled(names::SLOTS, &[queue], slots as f64),
            Self::labelled(names::RUNNING, &[queue], running as f64),
            Self::labelled(names::PREFETCHED, &[queue], prefetched as f64),
        ]
    }
}
