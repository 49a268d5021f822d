//! The names of all metrics, in one file. If the messaging conventions of OpenTelemetry have a name for a metric, it
//! has this name. The conventions are still in development. A new version of them changes only this file and the
//! documents that name metrics. A test compares these documents with this list.

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricType {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often values fell between fixed bounds.
    Histogram,
}

impl MetricType {
    /// The name in the text format of Prometheus.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: its names, its unit and its meaning.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name for OpenTelemetry.
    pub name: &'static str,
    /// The name for Prometheus.
    pub prometheus: &'static str,
    /// How it behaves.
    pub kind: MetricType,
    /// The unit, as OpenTelemetry writes it.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The labels that it may have, for Prometheus.
    pub labels: &'static [&'static str],
}

/// The label for a kind, and for a queue, after too many different ones.
pub const OTHER: &str = "_OTHER";
/// The queue that always has its own label.
pub(super) const ALWAYS: &str = "default";

/// The most different kinds, and the most different queues, that get labels of their own.
pub const MOST_LABELS: usize = 100;

/// The bounds of all histograms of durations, in seconds.
pub const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0];

/// The bounds of the histogram of the sizes of claims.
pub const CLAIM_SIZES: [f64; 8] = [0.0, 1.0, 2.0, 5.0, 20.0, 100.0, 500.0, 1000.0];

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal $prometheus:literal [$unit:literal] ($($label:literal)*) $help:literal;)+) => {
        $(
            #[doc = concat!("`", $prometheus, "`: ", $help)]
            pub const $constant: Metric = Metric {
                name: $name,
                prometheus: $prometheus,
                kind: MetricType::$kind,
                unit: $unit,
                help: $help,
                labels: &[$($label),*],
            };
        )+
        /// All metrics, in the order in which they are written.
        pub const ALL: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    SENT = Counter "messaging.client.sent.messages" "messaging_client_sent_messages_total" ["{message}"] ("queue" "kind")
        "Jobs that this program has sent to the database. The transaction around them may have been rolled back.";
    RECEIVED = Counter "messaging.client.consumed.messages" "messaging_client_consumed_messages_total" ["{message}"] ("queue" "kind")
        "Jobs that this worker has claimed.";
    PROCESS = Histogram "messaging.process.duration" "messaging_process_duration_seconds" ["s"] ("queue" "kind" "error_type")
        "How long handlers ran. error_type is empty if the attempt did not fail.";
    STORAGE = Histogram "messaging.client.operation.duration" "messaging_client_operation_duration_seconds" ["s"] ("operation" "error_type")
        "How long operations of the database took, maintenance included. error_type is empty if the operation succeeded.";
    ATTEMPTS = Counter "jobs.attempts" "jobs_attempts_total" ["{attempt}"] ("queue" "kind" "outcome" "error_type")
        "Attempts that have ended, and whose end is stored.";
    WAIT = Histogram "jobs.wait.duration" "jobs_wait_duration_seconds" ["s"] ("queue" "kind")
        "From the time when a job was due to the start of its handler.";
    CLAIM_SIZE = Histogram "jobs.claim.size" "jobs_claim_size" ["{job}"] ()
        "How many jobs a claim brought.";
    CLAIMS_REFUSED = Counter "jobs.claims.refused" "jobs_claims_refused_total" ["{claim}"] ()
        "Claims that brought no job although jobs were due: other workers held them, or the claim limit was reached.";
    POLLS = Counter "jobs.polls" "jobs_polls_total" ["{poll}"] ()
        "How often this worker has asked whether a job is due, because a claim brought none.";
    LEASES_LOST = Counter "jobs.leases.lost" "jobs_leases_lost_total" ["{lease}"] ("queue" "kind")
        "Attempts that lost their lease: their job was cancelled or rescued meanwhile.";
    RESCUED = Counter "jobs.rescued" "jobs_rescued_total" ["{job}"] ("outcome")
        "Jobs of dead workers that this worker has rescued: they wait again with a crash more (returned), they wait again and no attempt is consumed, because their worker was killed while it was stopping (released), or they are discarded.";
    PRUNED = Counter "jobs.pruned" "jobs_pruned_total" ["{job}"] ()
        "Ended jobs that this worker has deleted, because their retention was over.";
    SCHEDULE_FIRES = Counter "jobs.schedule.fires" "jobs_schedule_fires_total" ["{tick}"] ("kind")
        "Ticks of schedules that this worker has enqueued.";
    DATABASE_ERRORS = Counter "jobs.database.errors" "jobs_database_errors_total" ["{error}"] ("operation" "error_type")
        "Operations of the database that failed.";
    OPERATOR_ACTIONS = Counter "jobs.operator.actions" "jobs_operator_actions_total" ["{job}"] ("action")
        "Jobs that actions of operators have changed, if this program carried the actions out.";

    RUNNING = Gauge "jobs.running" "jobs_running" ["{job}"] ("queue")
        "Slots of this worker that are taken.";
    SLOTS = Gauge "jobs.slots" "jobs_slots" ["{job}"] ("queue")
        "Slots of this worker: how many jobs of the queue it runs at the same time.";
    PREFETCHED = Gauge "jobs.prefetched" "jobs_prefetched" ["{job}"] ("queue")
        "Jobs that this worker has claimed and not started yet.";
    LEASES = Gauge "jobs.leases" "jobs_leases" ["{lease}"] ()
        "Jobs that this worker has claimed and not finished yet.";
    CONNECTIONS = Gauge "jobs.connections" "jobs_connections" ["{connection}"] ()
        "Connections to the database that this worker has open: for its own statements, and for handlers.";
    HEARTBEAT_AGE = Gauge "jobs.heartbeat.age" "jobs_heartbeat_age_seconds" ["s"] ()
        "The time since the last heartbeat that the database has answered.";
    HEARTBEAT_INTERVAL = Gauge "jobs.heartbeat.interval" "jobs_heartbeat_interval_seconds" ["s"] ()
        "The time between two heartbeats at present: a quarter of the lease, at most ten seconds. It is the poll interval while a worker with a longer one is idle.";
    UPTIME = Gauge "jobs.worker.uptime" "jobs_worker_uptime_seconds" ["s"] ()
        "The time since this worker has started.";
    DRAINING = Gauge "jobs.worker.draining" "jobs_worker_draining" ["1"] ()
        "1 if this worker shuts down and claims nothing more.";
    FROZEN = Gauge "jobs.frozen" "jobs_frozen" ["1"] ()
        "1 if the database was frozen at the last heartbeat.";

    QUEUE_DEPTH = Gauge "jobs.queue.depth" "jobs_queue_depth" ["{job}"] ("queue" "state")
        "Jobs of the database that are due (available), due later, held by their limits or running. Counted up to 10000 per queue, then estimated.";
    OLDEST_DUE_AGE = Gauge "jobs.oldest.due.age" "jobs_oldest_due_age_seconds" ["s"] ("queue")
        "How long the oldest due job of the queue has waited.";
    STORED = Gauge "jobs.stored" "jobs_stored" ["{job}"] ("queue" "kind" "state")
        "Jobs in the database, at the last count of all jobs.";
    SAMPLE_AGE = Gauge "jobs.sample.age" "jobs_sample_age_seconds" ["s"] ()
        "The age of the last count of all jobs.";
    DEAD_ROWS = Gauge "jobs.dead.rows" "jobs_dead_rows" ["{row}"] ()
        "Dead rows of waiting and ended jobs, as PostgreSQL has counted them. A vacuum removes them.";
    SNAPSHOT_AGE = Gauge "jobs.snapshot.age" "jobs_snapshot_age_seconds" ["s"] ()
        "The age of the oldest snapshot or open transaction of the server. No vacuum removes rows that it may see.";
    WORKERS = Gauge "jobs.workers" "jobs_workers" ["{worker}"] ("state")
        "Worker processes of the database: alive, or dead and not removed yet.";
    PAUSED = Gauge "jobs.paused" "jobs_paused" ["{item}"] ("what")
        "How many queues and how many kinds are paused.";
    SEQUENCES_HALTED = Gauge "jobs.sequences.halted" "jobs_sequences_halted" ["{sequence}"] ()
        "Sequences that do not continue, because one of their jobs was discarded. Counted up to 1000.";
}

/// The gauges of a worker process.
pub const OF_WORKER: [&Metric; 9] =
    [&RUNNING, &SLOTS, &PREFETCHED, &LEASES, &CONNECTIONS, &HEARTBEAT_AGE, &UPTIME, &DRAINING, &FROZEN];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_names_follow_from_the_others_and_say_unit_and_type() {
        for Metric { name, prometheus, kind, unit, help, labels } in ALL {
            let mut expected = name.replace('.', "_");
            if *unit == "s" {
                expected.push_str("_seconds");
            }
            if *kind == MetricType::Counter {
                expected.push_str("_total");
            }
            assert_eq!(*prometheus, expected);
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
            for forbidden in ["id", "job", "tag", "worker", "attempt"] {
                assert!(!labels.contains(&forbidden), "{name} has the label {forbidden}");
            }
        }
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn bounds_grow() {
        assert!(SECONDS.is_sorted_by(|one, other| one < other) && CLAIM_SIZES.is_sorted_by(|one, other| one < other));
    }
}
