//! The rules of `check`. Pure: they read the database's answers and return findings.

use std::collections::BTreeSet;

use diesel_jobs_core::storage::StoredSchedule;
use diesel_jobs_core::{
    DeadLetter, DeadLetters, Depth, Installation, KindStats, QueueStats, Registry, Schedule, Stats, UnknownQueue,
    Worker, WorkerRecord,
};

use super::finding::Finding;
use crate::cli::output::{count, time};
use crate::cli::stats::wait;

/// What this program serves.
pub(super) struct Facts {
    kinds: BTreeSet<String>,
    queues: BTreeSet<String>,
    unknown: Vec<UnknownQueue>,
    /// Kinds that declare a schedule in code.
    schedules: BTreeSet<String>,
    /// Kinds whose jobs are a sequence.
    sequences: BTreeSet<String>,
}

impl Facts {
    /// Returns what the worker that `run` would start serves.
    pub(super) fn of_worker(worker: &Worker) -> Self {
        Self {
            kinds: worker.registry().kinds().into_iter().collect(),
            queues: worker.queues().map(str::to_owned).collect(),
            unknown: worker.unknown_queues().to_vec(),
            schedules: declared(worker.registry()),
            sequences: in_sequence(worker.registry()),
        }
    }

    /// Returns what the linked jobs need. Used if no worker could be built.
    pub(super) fn of_linked() -> Self {
        let registry = Registry::linked();
        Self {
            kinds: registry.kinds().into_iter().collect(),
            queues: registry.queues().into_iter().map(str::to_owned).collect(),
            unknown: Vec::new(),
            schedules: declared(&registry),
            sequences: in_sequence(&registry),
        }
    }
}

fn declared(registry: &Registry) -> BTreeSet<String> {
    let with_schedule = registry.iter().filter(|registration| registration.schedule.is_some());
    with_schedule.map(|registration| registration.kind.to_owned()).collect()
}

fn in_sequence(registry: &Registry) -> BTreeSet<String> {
    let with_sequence = registry.iter().filter(|registration| registration.options.in_sequence());
    with_sequence.map(|registration| registration.kind.to_owned()).collect()
}

/// Returns all problems that these answers show, errors and warnings, grouped by rule.
pub(super) fn examine(
    facts: &Facts,
    stats: &Stats,
    workers: &[WorkerRecord],
    schedules: &[StoredSchedule],
) -> Vec<Finding> {
    let served_elsewhere: BTreeSet<&str> =
        workers.iter().filter(|worker| worker.claims()).flat_map(|worker| &worker.queues).map(String::as_str).collect();
    let mut findings = unserved_queues(facts, &stats.queues, &served_elsewhere);
    findings.extend(unknown_queues(facts, &stats.queues));
    findings.extend(unserved_kinds(facts, &stats.kinds, &served_elsewhere));
    findings.extend(schedules.iter().filter_map(|schedule| bad_schedule(facts, schedule)));
    findings.extend(no_live_worker(&stats.queues, workers));
    findings.extend(not_counted(stats));
    findings
}

/// Returns the reasons why no worker, or not this one, can claim.
pub(super) fn installation(installation: &Installation, environment: Option<&str>) -> Vec<Finding> {
    let frozen = installation.frozen.as_ref().map(|freeze| {
        let message = format!("the database is {freeze}; nothing is claimed");
        Finding::warning("frozen", message, "if the reason no longer applies: `worker thaw`")
    });
    let standby = installation.standby.then(|| {
        let message = "the server is a standby, which takes no writes: nothing is claimed there";
        Finding::error(
            "standby",
            message,
            "set DATABASE_URL to the primary, or list all hosts and add target_session_attrs=read-write",
        )
    });
    let foreign = installation.admit(environment).err().map(|problem| {
        Finding::error("environment", problem.to_string(), "the worker would not start; correct this first")
    });
    let unnamed = environment.filter(|_| installation.environment.is_none()).map(|name| {
        Finding::warning(
            "unnamed_database",
            format!("this worker belongs to the environment `{name}`, and the database has no name: workers of any environment would also run the jobs of a copy"),
            format!("name it: `worker environment set {name}`"),
        )
    });
    foreign.into_iter().chain(standby).chain(frozen).chain(unnamed).collect()
}

fn waiting(stats: &KindStats) -> i64 {
    stats.available + stats.scheduled + stats.retrying + stats.held
}

fn unserved_queues(facts: &Facts, queues: &[QueueStats], elsewhere: &BTreeSet<&str>) -> Vec<Finding> {
    let unserved = |s: &&QueueStats| !facts.queues.contains(&s.queue) && !elsewhere.contains(&*s.queue);
    let finding = |stats: &QueueStats| {
        let (queue, jobs) = (&stats.queue, stats.waiting());
        Finding::error(
            "unserved_queue",
            format!("{} in queue `{queue}`, which neither these options nor a live worker serve", that_wait(jobs, "")),
            match UnknownQueue::nearest(queue, facts.queues.iter().map(String::as_str)) {
                Some(near) => format!(
                    "was `{near}` meant? If not, serve it: `--queues {queue}`, beside the others, or start a worker that does"
                ),
                None => format!("serve it: `--queues {queue}`, beside the others, or start a worker that does"),
            },
        )
    };
    queues.iter().filter(|s| s.waiting().jobs > 0).filter(unserved).map(finding).collect()
}

/// Returns queues that are served, hold no job, and are named by no job of this program.
fn unknown_queues(facts: &Facts, queues: &[QueueStats]) -> Vec<Finding> {
    let holds_jobs = |s: &QueueStats| s.waiting().jobs + s.running > 0;
    let empty = |queue: &&UnknownQueue| !queues.iter().any(|s| s.queue == queue.name && holds_jobs(s));
    let finding = |queue: &UnknownQueue| {
        Finding::warning(
            "unknown_queue",
            format!("queue `{}` is served, holds no job, and no job of this program goes there by default", queue.name),
            format!(
                "{}; if it is meant, declare it in the set-up function: `.declare_queue({:?})`",
                queue.hint(),
                queue.name
            ),
        )
    };
    facts.unknown.iter().filter(empty).map(finding).collect()
}

/// Returns kinds with waiting jobs that this program has no handler for: no worker runs a job of an unknown kind. A
/// queue that only other live workers serve is left out, because they may have the handler.
fn unserved_kinds(facts: &Facts, stats: &[KindStats], elsewhere: &BTreeSet<&str>) -> Vec<Finding> {
    let ours = |queue: &str| facts.queues.contains(queue) || !elsewhere.contains(queue);
    let unserved = |s: &&KindStats| waiting(s) > 0 && !facts.kinds.contains(&s.kind) && ours(&s.queue);
    let finding = |s: &KindStats| {
        let KindStats { kind, queue, .. } = s;
        Finding::error(
            "unserved_kind",
            format!(
                "{} in queue `{queue}`, and this program has no handler for it",
                that_wait(Depth { jobs: waiting(s), is_exact: true }, &format!(" of kind `{kind}`"))
            ),
            format!(
                "deploy a program that has it, give a renamed job `kind = \"{kind}\"`, or `list --kind {kind}` and `cancel`"
            ),
        )
    };
    stats.iter().filter(unserved).map(finding).collect()
}

/// Returns `1 job of kind .. waits`, `2 jobs wait`.
fn that_wait(depth: Depth, which: &str) -> String {
    match depth {
        Depth { jobs, is_exact: true } => {
            format!("{}{which} {}", count(jobs, "job"), if jobs == 1 { "waits" } else { "wait" })
        }
        depth => format!("{depth} jobs{which} wait"),
    }
}

fn bad_schedule(facts: &Facts, schedule: &StoredSchedule) -> Option<Finding> {
    let StoredSchedule { name, kind, expression, timezone, paused, .. } = schedule;
    if *paused {
        return None;
    }
    if let Err(problem) = Schedule::parse(expression, timezone) {
        return Some(Finding::error(
            "bad_schedule",
            format!("schedule `{name}` never ticks: {problem}"),
            "correct or delete its row in the schedules' table; one declared in code comes back corrected with the next worker",
        ));
    }
    if facts.sequences.contains(kind) {
        return Some(Finding::warning(
            "schedule_in_sequence",
            format!(
                "schedule `{name}` enqueues jobs of kind `{kind}`, which are a sequence: if one is discarded, the jobs of all later ticks wait"
            ),
            "schedule a kind with `concurrency(limit = 1)` instead, or one whose handler enqueues these jobs; then `worker schedules remove`",
        ));
    }
    if facts.kinds.contains(kind) && name == kind && !facts.schedules.contains(kind) {
        return Some(Finding::warning(
            "stale_schedule",
            format!(
                "schedule `{name}` is stored, and the code of this program does not declare it: only workers of another version run it"
            ),
            "if the schedule was removed from the code and no older worker is left, delete its row in the schedules' table",
        ));
    }
    (!facts.kinds.contains(kind)).then(|| {
        Finding::warning(
            "unserved_schedule",
            format!("schedule `{name}` enqueues jobs of kind `{kind}`, and this program has no handler for it"),
            "deploy a program that has it, or delete the schedule's row",
        )
    })
}

/// Returns a warning about the dead letters: no worker will ever run these jobs again by itself.
pub(super) fn set_apart(letters: &DeadLetters) -> Option<Finding> {
    let DeadLetter { number, id, kind, queue, reason, at } = letters.newest.as_ref()?;
    let (rows, them) = if letters.count == 1 { ("row was", "it") } else { ("rows were", "them") };
    Some(Finding::warning(
        "set_apart",
        format!(
            "{} {rows} set apart in jobs.dead_letter, because the database refused to move {them} on; the newest at {}: \
             job {id} of kind `{kind}` in queue `{queue}`: {reason}",
            letters.count,
            time(*at)
        ),
        format!(
            "to see {them}: `select * from jobs.dead_letter order by number desc`; to enqueue the newest again, under a new id: \
             `select jobs.put_back({number})`; to drop it: `delete from jobs.dead_letter where number = {number}`"
        ),
    ))
}

/// Returns a warning if the kinds of the waiting jobs are unknown.
fn not_counted(stats: &Stats) -> Option<Finding> {
    (!stats.counted.now && stats.counted.age_seconds.is_none()).then(|| {
        Finding::warning(
            "not_counted",
            "there are many jobs, and no worker has counted them by kind yet, so their kinds were not checked",
            "start a worker: it counts them within some seconds",
        )
    })
}

fn no_live_worker(queues: &[QueueStats], workers: &[WorkerRecord]) -> Option<Finding> {
    let due = queues.iter().map(|s| s.available).fold(Depth { jobs: 0, is_exact: true }, |sum, depth| sum + depth);
    if due.jobs == 0 || workers.iter().any(|worker| worker.alive) {
        return None;
    }
    let oldest = queues.iter().filter_map(|s| s.oldest_wait_seconds).fold(0.0, f64::max);
    Some(Finding::warning(
        "no_worker",
        format!(
            "{} due and no worker is alive; the oldest has waited {}",
            if due.jobs == 1 { "1 job is".to_owned() } else { format!("{due} jobs are") },
            wait(oldest).unwrap_or_default()
        ),
        "start one: `run`",
    ))
}

#[cfg(test)]
#[path = "examine/tests.rs"]
mod tests;
