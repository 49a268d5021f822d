//! The checks of a worker's settings, before any job is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::builder::WorkerBuilder;
use super::error::WorkerError;
use super::run::Worker;
use super::settings::Settings;
use crate::installation::check_words;
use crate::queue_pattern::{HAS_A_STAR, check_served, is_pattern};
use crate::registry::Registry;
use crate::storage::instrumented::Instrumented;
use crate::unknown_queue::UnknownQueue;

impl WorkerBuilder {
    /// Builds the worker. This checks the settings and the registered jobs as far as it is possible without the
    /// database.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Setting`] if a setting is out of bounds, and [`WorkerError::Registry`] if the registered jobs
    /// cannot be run, for example because a handler takes a state that the worker was not given.
    pub fn build(self) -> Result<Worker, WorkerError> {
        let registry = self.registry.unwrap_or_else(Registry::linked);
        let storage = self.storage;
        registry.check(&self.layers.known(&self.states), |id| storage.provides(id), storage.name())?;
        let invalid = |problem: String| Err(WorkerError::Setting(problem));
        if self.lease < Duration::from_secs(1) {
            return invalid(format!("a lease of {:?} is too short to keep; use at least 1s", self.lease));
        }
        if self.poll < Duration::from_millis(1) {
            return invalid(format!("a poll interval of {:?} would never pause; use at least 1ms", self.poll));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("a timeout of 0 would end every attempt at once; use at least 1ms".to_owned());
        }
        if self.keep_history < Duration::from_secs(3600) {
            return invalid(format!("a history of {:?} is too short to show; keep at least 1h", self.keep_history));
        }
        if self.max_crashes == 0 {
            return invalid("max_crashes = 0 would discard every job; use at least 1".to_owned());
        }
        if let Some(environment) = &self.environment {
            check_words("the worker's environment", environment).map_err(WorkerError::Setting)?;
        }
        if let Some(version) = &self.program_version {
            check_words("the program's version", version).map_err(WorkerError::Setting)?;
        }
        let known: BTreeSet<&str> =
            registry.queues().into_iter().chain(self.declared.iter().map(String::as_str)).collect();
        if let Some(queue) = known.iter().find(|queue| is_pattern(queue)) {
            return invalid(format!(
                "the queue `{queue}` of a job or of `declare_queue` {HAS_A_STAR}; name the queue itself there"
            ));
        }
        let mut queues = BTreeMap::new();
        let mut unknown = Vec::new();
        for (queue, slots) in &self.queues {
            check_served(queue).map_err(WorkerError::Setting)?;
            if !is_pattern(queue) && !known.contains(queue.as_str()) {
                unknown.push(UnknownQueue::new(queue, &known));
            }
            queues.insert(queue.clone(), slots.unwrap_or(self.slots));
        }
        if queues.is_empty() {
            queues = known.iter().map(|queue| ((*queue).to_owned(), self.slots)).collect();
        }
        if let Some((queue, _)) = queues.iter().find(|(_, slots)| **slots == 0 || **slots > 100_000) {
            return invalid(format!("queue `{queue}`: a queue has from 1 to 100000 slots"));
        }
        if let Some(total) = self.slots_total.filter(|total| *total == 0 || *total > 100_000) {
            return invalid(format!("slots_total = {total}: a worker has from 1 to 100000 slots in all"));
        }
        let settings = Settings {
            queues,
            slots_total: self.slots_total,
            poll: self.poll,
            early_polls: self.early_polls,
            refused_for: self.refused_for,
            grace: self.grace,
            lease: self.lease,
            timeout: self.timeout,
            max_crashes: self.max_crashes,
            retention: self.retention,
            keep_history: self.keep_history,
            environment: self.environment,
            layers: self.layers,
            program_version: self.program_version,
            recorders: self.recorders.clone(),
        };
        let refusals = Arc::default();
        let storage = Arc::new(Instrumented::new(storage, self.recorders, Arc::clone(&refusals)));
        Ok(Worker::new(storage, refusals, registry, self.states, settings, unknown))
    }
}
