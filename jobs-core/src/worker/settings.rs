//! How a worker behaves: each value with its default and its bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::layer::Layers;
use crate::outcome::Retention;
use crate::recorder::Recorders;
use crate::storage::RescuePolicy;

const LONGEST_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
const LONGEST_NO_RESCUE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// For each queue and each pattern of queues, how many jobs of a queue run at the same time.
    pub(crate) queues: BTreeMap<String, usize>,
    /// How many jobs of all queues together run at the same time.
    pub(crate) slots_total: Option<usize>,
    pub(crate) poll: Duration,
    /// How long the polls of a worker that has become idle are more frequent.
    pub(crate) early_polls: Duration,
    /// For how long the server must refuse the credentials until the worker ends.
    pub(crate) refused_for: Duration,
    pub(crate) grace: Duration,
    pub(crate) lease: Duration,
    /// For kinds that set no timeout.
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_crashes: u16,
    pub(crate) retention: Retention,
    pub(crate) keep_history: Duration,
    pub(crate) environment: Option<String>,
    pub(crate) layers: Layers,
    /// For the list of workers.
    pub(crate) program_version: Option<String>,
    pub(crate) recorders: Recorders,
}

impl Settings {
    pub(super) const POLL: Duration = Duration::from_secs(3);
    pub(super) const EARLY_POLLS: Duration = Duration::from_secs(20);
    pub(super) const REFUSED_FOR: Duration = Duration::from_secs(5 * 60);
    /// Shorter than the 10 s that `docker stop` gives. Most platforms give at least as much.
    pub(super) const GRACE: Duration = Duration::from_secs(8);
    pub(super) const LEASE: Duration = Duration::from_secs(30);
    pub(super) const MAX_CRASHES: u16 = 3;
    pub(super) const KEEP_HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);

    /// The time between two heartbeats. There are four in a lease, so that two may fail. The time has an upper bound
    /// for workers with a long lease. They soon know that they may rescue the jobs of workers with short leases.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        (self.lease / 4).min(LONGEST_HEARTBEAT_INTERVAL)
    }

    /// While the database answers, the newest heartbeat of a worker that does not rest is no older than this.
    pub(crate) fn oldest_heartbeat(&self) -> Duration {
        self.heartbeat_interval().saturating_mul(3)
    }

    /// Whether this worker rests while it is idle: its polls are further apart than the heartbeats of any worker.
    pub(crate) fn rests(&self) -> bool {
        self.poll > LONGEST_HEARTBEAT_INTERVAL
    }

    /// Whether an idle worker may leave it to its polls to notice that another worker is dead, because they are as
    /// frequent as its searches, or because it rests.
    pub(crate) fn rescues_at_polls(&self) -> bool {
        self.poll <= self.maintenance_interval() || self.rests()
    }

    /// How long after a heartbeat a resting worker counts as dead. The next one comes within a poll interval, and if
    /// it fails, it is tried for the time of a lease.
    pub(crate) fn resting_lease(&self) -> Duration {
        self.poll.saturating_add(self.lease)
    }

    /// How long after an outage a worker declares no other worker dead. A live worker sends a beat within seconds,
    /// whatever its lease is.
    pub(crate) fn no_rescue_after_outage(&self) -> Duration {
        self.lease.min(LONGEST_NO_RESCUE)
    }

    /// The time between two searches for dead workers.
    pub(crate) fn maintenance_interval(&self) -> Duration {
        (self.lease / 6).clamp(Duration::from_millis(250), Duration::from_secs(5))
    }

    /// How the jobs of dead workers are treated.
    pub(crate) fn rescue_policy(&self, orphans: bool) -> RescuePolicy {
        RescuePolicy { max_crashes: self.max_crashes, retention: self.retention, orphans, rescuer: None }
    }

    /// `default=16, mail=4`, for the log.
    pub(crate) fn queues_text(&self) -> String {
        let parts: Vec<String> = self.queues.iter().map(|(queue, slots)| format!("{queue}={slots}")).collect();
        let total = self.slots_total.map(|slots| format!("; at most {slots} in all")).unwrap_or_default();
        parts.join(", ") + &total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_lease(lease: Duration) -> Settings {
        Settings {
            queues: BTreeMap::new(),
            slots_total: None,
            poll: Settings::POLL,
            early_polls: Settings::EARLY_POLLS,
            refused_for: Settings::REFUSED_FOR,
            grace: Settings::GRACE,
            lease,
            timeout: None,
            max_crashes: Settings::MAX_CRASHES,
            retention: Retention::default(),
            environment: None,
            layers: Layers::default(),
            program_version: None,
            recorders: Recorders::default(),
            keep_history: Duration::ZERO,
        }
    }

    #[test]
    fn only_a_long_poll_interval_delays_heartbeats_and_rescues() {
        let default = with_lease(Settings::LEASE);
        assert_eq!((default.rests(), default.rescues_at_polls()), (false, true));
        let short = with_lease(Duration::from_secs(10));
        assert_eq!((short.rests(), short.rescues_at_polls()), (false, false));
        let seldom = Settings { poll: Duration::from_secs(300), ..with_lease(Settings::LEASE) };
        assert_eq!((seldom.rests(), seldom.rescues_at_polls()), (true, true));
        assert_eq!(seldom.resting_lease(), Duration::from_secs(330));
    }

    #[test]
    fn a_long_lease_does_not_delay_rescues_of_short_ones() {
        let long = with_lease(Duration::from_secs(24 * 3600));
        assert_eq!(
            (long.heartbeat_interval(), long.no_rescue_after_outage()),
            (LONGEST_HEARTBEAT_INTERVAL, LONGEST_NO_RESCUE)
        );
        let default = with_lease(Settings::LEASE);
        assert_eq!(
            (default.heartbeat_interval(), default.no_rescue_after_outage()),
            (Settings::LEASE / 4, Settings::LEASE)
        );
    }
}
