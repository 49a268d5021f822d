//! The health of a worker, for probes: whether the process should be restarted, and whether it claims jobs.

use std::time::Duration;

use super::shared::Shared;
use super::shutdown::WorkerHandle;
use crate::handler::Handler;

/// The claim loop waits for at most a few statements in a row, and each of them is given up after ten seconds. If it
/// makes no step for this time and one poll interval, it is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Whether a handler that has run for this long may be why the claim loop makes no step. It usually begins *after* the
/// last step, because that step has started it. But it begins before the next step must have come.
fn may_block(running: Duration, since_step: Duration, limit: Duration) -> bool {
    running >= since_step.saturating_sub(limit)
}

/// The result of one check of a worker's health.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCheck {
    /// What was checked.
    pub name: &'static str,
    /// Whether the check passed.
    pub passed: bool,
    /// The reason, in words.
    pub detail: String,
}

impl HealthCheck {
    /// The result of a check.
    pub fn new(name: &'static str, passed: bool, detail: impl Into<String>) -> Self {
        Self { name, passed, detail: detail.into() }
    }
}

/// How busy one queue of a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLoad {
    /// The queue.
    pub queue: String,
    /// How many of its jobs can run at the same time.
    pub slots: usize,
    /// How many slots are taken.
    pub running: usize,
    /// How many claimed jobs wait for a slot.
    pub prefetched: usize,
}

impl WorkerHandle {
    /// Whether the claim loop makes progress. If it does not, only a restart of the process helps.
    ///
    /// A failed statement counts as progress, so an outage of the database does not fail this check. A handler that
    /// blocks the runtime does not fail it either.
    pub fn liveness(&self) -> HealthCheck {
        let check = |passed, detail: String| HealthCheck::new("claim_loop", passed, detail);
        let shared = self.shared();
        if shared.health.uptime().is_none() {
            return check(true, "the worker has not started yet".to_owned());
        }
        if shared.phases.draining().is_cancelled() {
            return check(true, "the worker drains and claims nothing more".to_owned());
        }
        let since = shared.health.since_tick();
        let limit = shared.settings.poll.saturating_add(STUCK_AFTER);
        if since <= limit {
            return check(true, format!("the last step was {since:.1?} ago"));
        }
        let on_the_runtime = |kind: &str| {
            let handler = shared.registry.get(kind).map(|registration| registration.handler);
            !matches!(handler, Some(Handler::Blocking(_) | Handler::BlockingTransactional(_)))
        };
        let running = shared.leases.running();
        match running.iter().find(|(ctx, running)| may_block(*running, since, limit) && on_the_runtime(ctx.kind())) {
            Some((ctx, _)) => check(
                true,
                format!("the last step was {since:.1?} ago; the handler `{}` may block the runtime", ctx.kind()),
            ),
            None => check(false, format!("the last step was {since:.1?} ago, and no handler is the reason")),
        }
    }

    /// Whether the worker can claim jobs: it has started, it is registered in the database, its last heartbeat reached
    /// the database, and it is not draining. A [freeze](crate::Freeze) of the database does not fail this check,
    /// because the worker is ready to continue after it.
    pub fn readiness(&self) -> Vec<HealthCheck> {
        let shared = self.shared();
        let (health, draining) = (&shared.health, shared.phases.draining().is_cancelled());
        let started = health.uptime().is_some();
        let age = self.heartbeat_age();
        let answered = age.map_or("no heartbeat was answered yet".to_owned(), |age| {
            format!("the last answered heartbeat is {age:.1?} old")
        });
        // A heartbeat that hangs fails neither nor succeeds. So its age counts, too.
        let longest = match shared.idleness.is_rest_told() {
            true => shared.settings.resting_lease(),
            false => shared.settings.oldest_heartbeat(),
        };
        let lately = age.is_some_and(|age| age <= longest);
        let frozen = *shared.frozen.borrow();
        let or = |yes: bool, then: &'static str, otherwise: &'static str| if yes { then } else { otherwise };
        vec![
            HealthCheck::new(
                "started",
                started,
                or(started, "the worker has started", "the worker has not started yet"),
            ),
            HealthCheck::new(
                "schema",
                health.is_registered(),
                or(
                    health.is_registered(),
                    "the worker is registered, and this program serves the schema",
                    "the worker is not registered in the database",
                ),
            ),
            HealthCheck::new("database", health.is_reached() && lately, answered),
            HealthCheck::new("draining", !draining, or(draining, "the worker drains", "the worker does not drain")),
            HealthCheck::new(
                "freeze",
                true,
                or(frozen, "the database is frozen: nothing is claimed until the thaw", "the database is not frozen"),
            ),
        ]
    }

    /// Whether the worker has registered in the database and begun to claim.
    pub fn has_started(&self) -> bool {
        self.shared().health.claims().is_cancelled()
    }

    /// Waits until it has. For what reports to a supervisor.
    #[doc(hidden)]
    pub async fn until_started(&self) {
        self.shared().health.claims().cancelled().await;
    }

    /// Whether the worker is shutting down and claims no more jobs.
    pub fn is_draining(&self) -> bool {
        self.shared().phases.draining().is_cancelled()
    }

    /// Waits until it is.
    #[doc(hidden)]
    pub async fn until_draining(&self) {
        self.shared().phases.draining().cancelled().await;
    }

    /// How long running jobs may continue when the worker shuts down.
    #[doc(hidden)]
    pub fn grace_period(&self) -> Duration {
        self.shared().settings.grace
    }

    /// Whether the database was frozen at the last heartbeat.
    pub fn is_frozen(&self) -> bool {
        *self.shared().frozen.borrow()
    }

    /// The time since the worker registered in the database for the first time. `None` before that.
    pub fn uptime(&self) -> Option<Duration> {
        self.shared().health.uptime()
    }

    /// The time since the last heartbeat that the database answered. `None` before the first one.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        self.shared().heartbeat_state.age()
    }

    /// The time between two heartbeats at present.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        let Shared { settings, idleness, .. } = self.shared();
        if idleness.is_rest_told() { settings.poll } else { settings.heartbeat_interval() }
    }

    /// How busy each queue of this worker is, in the order of their names.
    pub fn queues(&self) -> Vec<QueueLoad> {
        let loads = self.shared().queues.loads().into_iter();
        loads.map(|(queue, [slots, running, prefetched])| QueueLoad { queue, slots, running, prefetched }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_that_the_last_step_has_started_may_be_why_there_is_no_next_one() {
        let seconds = Duration::from_secs;
        let (since, limit) = (seconds(77), seconds(61));
        assert!(may_block(since - Duration::from_millis(1), since, limit));
        assert!(may_block(seconds(80), since, limit), "it runs for longer");
        assert!(may_block(seconds(70), since, limit), "it began while the loop waited for a statement");
        assert!(!may_block(seconds(15), since, limit), "the loop was stuck before");
    }
}
