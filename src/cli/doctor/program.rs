//! What only the program knows: whether its worker would start, its queues, schedules and variables. The rules are
//! pure: they read the database's answers and return findings.

use std::collections::BTreeSet;

use diesel_jobs_core::shell::argument;
use diesel_jobs_core::storage::{Finding, StoredSchedule};
use diesel_jobs_core::{Installation, QueueStats, Registry, UnknownQueue, Worker};

use crate::cli::exit::CliError;
use crate::cli::run_args::RunArgs;
use crate::cli::unknown_queues::listed;
use crate::cli::worker::left_out as left_out_by;

/// What this program serves and declares.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) queues: BTreeSet<String>,
    pub(super) kinds: BTreeSet<String>,
    environment: Option<String>,
    unknown: Vec<UnknownQueue>,
    /// Default queues of its kinds that it does not serve.
    left_out: Vec<String>,
    /// Kinds that declare a schedule in code.
    schedules: BTreeSet<String>,
    /// Kinds whose jobs are a sequence.
    sequences: BTreeSet<String>,
}

impl Facts {
    /// Returns what the worker that `run` would start serves.
    pub(super) fn of_worker(worker: &Worker) -> Self {
        Self {
            queues: worker.queues().map(str::to_owned).collect(),
            environment: worker.environment().map(str::to_owned),
            unknown: worker.unknown_queues().to_vec(),
            left_out: left_out_by(worker),
            ..Self::of(worker.registry())
        }
    }

    /// Returns what the linked jobs need. Used if no worker could be built.
    pub(super) fn of_linked(settings: &RunArgs) -> Self {
        Self { environment: settings.environment.clone(), ..Self::of(&Registry::linked()) }
    }

    fn of(registry: &Registry) -> Self {
        let scheduled = registry.iter().filter(|registration| registration.schedule.is_some());
        let ordered = registry.iter().filter(|registration| registration.options.in_sequence());
        Self {
            queues: registry.queues().into_iter().map(str::to_owned).collect(),
            kinds: registry.kinds().into_iter().collect(),
            schedules: scheduled.map(|registration| registration.kind.to_owned()).collect(),
            sequences: ordered.map(|registration| registration.kind.to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// The worker of this program would stop at its start.
pub(super) fn would_not_start(error: &CliError) -> Finding {
    let repair = "correct it: the worker of this program would not start";
    Finding::error("worker", error.to_string(), repair)
}

/// Whether a worker of this environment may serve the database.
pub(super) fn environment(facts: &Facts, installation: &Installation) -> Option<Finding> {
    let name = facts.environment.as_deref();
    if let Err(problem) = installation.admit(name) {
        let repair = "correct it: the worker of this program would not start";
        return Some(Finding::error("environment", problem.to_string(), repair));
    }
    name.filter(|_| installation.environment.is_none()).map(|name| {
        Finding::warning(
            "unnamed_database",
            format!("this worker belongs to the environment `{name}`, and the database has no name: workers of any environment would also run the jobs of a copy"),
            format!("worker environment set {}", argument(name)),
        )
    })
}

/// Returns queues that are served, hold no job, and are named by no job of this program.
pub(super) fn unknown_queues(facts: &Facts, queues: &[QueueStats]) -> Vec<Finding> {
    let holds_jobs = |stats: &QueueStats| stats.waiting().jobs + stats.running > 0;
    let empty = |queue: &&UnknownQueue| !queues.iter().any(|stats| stats.queue == queue.name && holds_jobs(stats));
    let finding = |queue: &UnknownQueue| {
        let name = &queue.name;
        Finding::warning(
            "unknown_queue",
            format!("queue `{name}` is served, holds no job, and no job of this program goes there by default"),
            format!("{}; if it is meant, declare it in the set-up function: `.declare_queue({name:?})`", queue.hint()),
        )
    };
    facts.unknown.iter().filter(empty).map(finding).collect()
}

/// Returns the default queues of this program's kinds that it does not serve.
pub(super) fn left_out(facts: &Facts) -> Option<Finding> {
    (!facts.left_out.is_empty()).then(|| {
        Finding::warning(
            "unserved_default_queue",
            format!("this program does not serve {}, although its jobs go there by default", listed(&facts.left_out)),
            "if no other program serves them, name them in --queues, or with `.serve(..)` in the set-up function: if any queues are named, \
             a worker serves only those",
        )
    })
}

/// Returns stored schedules that do not fit the code of this program.
pub(super) fn schedules(facts: &Facts, schedules: &[StoredSchedule]) -> Vec<Finding> {
    let running = schedules.iter().filter(|schedule| !schedule.paused);
    running.filter_map(|schedule| unfit(facts, schedule)).collect()
}

fn unfit(facts: &Facts, StoredSchedule { name, kind, .. }: &StoredSchedule) -> Option<Finding> {
    if facts.sequences.contains(kind) {
        return Some(Finding::warning(
            "schedule_in_sequence",
            format!(
                "schedule `{name}` enqueues jobs of kind `{kind}`, which are a sequence: if one is discarded, the jobs of all later ticks wait"
            ),
            format!(
                "schedule a kind with `concurrency(limit = 1)` instead, or one whose handler enqueues these jobs, and then: worker schedules remove {}",
                argument(name)
            ),
        ));
    }
    let is_stale = facts.kinds.contains(kind) && name == kind && !facts.schedules.contains(kind);
    is_stale.then(|| {
        Finding::warning(
            "stale_schedule",
            format!(
                "schedule `{name}` is stored, and the code of this program does not declare it: only workers of another version run it"
            ),
            format!("if no worker of an older version is left, delete the row `{name}` in the table of schedules"),
        )
    })
}

/// A variable that looks like one of the worker's, and that no command reads.
pub(super) fn unknown_variable(what: String) -> Finding {
    Finding::warning("unknown_variable", what, "correct the name of the variable, or remove it")
}

#[cfg(test)]
#[path = "program/tests.rs"]
mod tests;
