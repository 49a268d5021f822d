//! Waiting jobs that nobody runs, and why: the database is frozen, their queue or kind is paused, no worker is alive,
//! or none serves their queue, knows their kind or has slots for them. Each queue and kind is named once.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use super::servers::{Servers, Whose};
use crate::history::OTHER;
use crate::installation::Freeze;
use crate::nearest::nearest;
use crate::record::WorkerRecord;
use crate::shell::{argument, jobs_of, option, serving};
use crate::stats::KindStats;
use crate::storage::{Finding, KindSettings, Program, QueueSettings, Severity, WaitingJobs};
use crate::unique::without_version;

/// At most this many findings of a check are returned: those about the most jobs.
const MOST: usize = 20;

/// While workers run, due jobs that nobody runs are not logged before this many seconds: the worker that serves them
/// may have begun a moment ago.
pub const UNNOTICED: f64 = 10.0;

/// What the database says of the waiting jobs, and of those who may run them.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The jobs.
    pub jobs: Vec<WaitingJobs>,
    /// All workers.
    pub workers: Vec<WorkerRecord>,
    /// The settings of queues.
    pub queues: Vec<QueueSettings>,
    /// The settings of kinds.
    pub kinds: Vec<KindSettings>,
    /// The freeze, while the database is frozen.
    pub frozen: Option<Freeze>,
}

/// The jobs of a queue, of all kinds together.
#[derive(Default)]
struct Queue {
    jobs: i64,
    /// Since when the oldest due job waits, leaving out kinds that are paused or that nobody here runs.
    oldest_due: Option<DateTime<Utc>>,
}

/// Finds the waiting jobs that nobody runs. A due job may wait for `objective`.
pub fn waiting(found: &Observed, objective: Duration, program: Option<&Program>, now: DateTime<Utc>) -> Vec<Finding> {
    let servers = Servers::of(&found.workers, program);
    let late = |since: DateTime<Utc>| (now - since).to_std().is_ok_and(|waited| waited > objective);
    let mut findings = stopped(found);
    findings.extend(no_worker(found, &servers, late));

    let mut queues: BTreeMap<&str, Queue> = BTreeMap::new();
    let mut unknown = Vec::new();
    for jobs in &found.jobs {
        let queue = queues.entry(&jobs.queue).or_default();
        queue.jobs += jobs.jobs;
        if found.kind_is_paused(&jobs.kind) {
            continue;
        }
        if servers.serve(&jobs.queue) && !servers.run(&jobs.kind, &jobs.queue) {
            unknown.push((jobs.jobs, unknown_kind(jobs, &servers)));
        } else {
            queue.oldest_due = queue.oldest_due.into_iter().chain(jobs.oldest_due).min();
        }
    }
    let mut unserved = Vec::new();
    let mut slow = Vec::new();
    for (name, queue) in queues.into_iter().filter(|(name, _)| !found.queue_is_paused(name)) {
        if servers.whose != Whose::Nobody && !servers.serve(name) {
            unserved.push((queue.jobs, unserved_queue(name, queue.jobs, &servers)));
        } else if found.has_no_slots(name, &servers) {
            slow.push((queue.jobs, no_slots(name, queue.jobs)));
        } else if servers.whose == Whose::LiveWorkers
            && found.frozen.is_none()
            && let Some(since) = queue.oldest_due.filter(|since| late(*since))
        {
            slow.push((queue.jobs, oldest_due(name, since, objective)));
        }
    }
    for mut of_check in [unserved, unknown, slow] {
        of_check.sort_by_key(|(jobs, _)| std::cmp::Reverse(*jobs));
        findings.extend(of_check.into_iter().take(MOST).map(|(_, finding)| finding));
    }
    findings
}

/// Those of the counted jobs that have been due for so long that a worker logs it if nobody runs them.
pub fn due_jobs(counted: &[KindStats]) -> Vec<WaitingJobs> {
    let due = counted
        .iter()
        .filter(|kind| kind.queue != OTHER && kind.available > 0 && kind.oldest_wait_seconds >= Some(UNNOTICED));
    let jobs = |KindStats { queue, kind, available, .. }: &KindStats| WaitingJobs {
        queue: queue.clone(),
        kind: kind.clone(),
        jobs: *available,
        due: *available,
        oldest_due: None,
    };
    due.map(jobs).collect()
}

/// Finds those of these jobs whose queue no live worker serves, or whose kind none of those that serve it knows. If no
/// worker claims jobs, they are compared with the program.
pub fn unserved(found: &Observed, program: Option<&Program>) -> Vec<Finding> {
    let mut findings = waiting(found, Duration::MAX, program, DateTime::UNIX_EPOCH);
    findings.retain(|finding| matches!(finding.check, "unserved_queue" | "unknown_kind"));
    findings
}

impl Observed {
    fn queue_is_paused(&self, name: &str) -> bool {
        self.queues.iter().any(|queue| queue.name == name && queue.paused.is_some())
    }

    fn kind_is_paused(&self, name: &str) -> bool {
        self.kinds.iter().any(|kind| kind.name == name && kind.paused.is_some())
    }

    /// Whether an operator has set the slots of the queue to 0, so that none of its jobs starts.
    fn has_no_slots(&self, name: &str, servers: &Servers<'_>) -> bool {
        let set = self.queues.iter().find(|queue| queue.name == name).and_then(|queue| queue.slots);
        let mut workers = servers.workers_of(name).peekable();
        match workers.peek() {
            Some(_) => workers.all(|worker| worker.slots_of(name, set) == Some(0)),
            None => set == Some(0),
        }
    }
}

/// What operators have stopped.
fn stopped(found: &Observed) -> Vec<Finding> {
    let frozen = found.frozen.iter().map(|freeze| {
        Finding::warning("frozen", format!("the database is {freeze}; nothing is claimed"), "worker thaw")
    });
    let queues = found.queues.iter().filter_map(|QueueSettings { name, paused, .. }| {
        let pause = paused.as_ref()?;
        let what = format!("queue `{name}` is {pause}; its jobs are not claimed");
        Some(Finding::warning("queue_paused", what, format!("worker queues resume {}", argument(name))))
    });
    let kinds = found.kinds.iter().filter_map(|KindSettings { name, paused }| {
        let pause = paused.as_ref()?;
        let what = format!("kind `{name}` is {pause}; its jobs are not claimed");
        Some(Finding::warning("kind_paused", what, format!("worker kinds resume {}", argument(name))))
    });
    frozen.chain(queues).chain(kinds).collect()
}

/// Due jobs without any worker. A deploy may be the reason, so it becomes an error only after the objective.
fn no_worker(found: &Observed, servers: &Servers<'_>, late: impl Fn(DateTime<Utc>) -> bool) -> Option<Finding> {
    if found.frozen.is_some() || matches!(servers.whose, Whose::LiveWorkers | Whose::ProgramAlone) {
        return None;
    }
    let due = || {
        let runnable = |jobs: &&WaitingJobs| !found.queue_is_paused(&jobs.queue) && !found.kind_is_paused(&jobs.kind);
        found.jobs.iter().filter(runnable).filter(|jobs| jobs.due > 0)
    };
    let jobs: i64 = due().map(|jobs| jobs.due).sum();
    let oldest = due().filter_map(|jobs| jobs.oldest_due).min()?;
    let who = match found.workers.iter().filter(|worker| worker.alive).count() {
        0 => "no worker is alive".to_owned(),
        1 => "the only live worker drains, or was asked to be quiet or to stop".to_owned(),
        alive => format!("all {alive} live workers drain, or were asked to be quiet or to stop"),
    };
    let are = if jobs == 1 { "1 job is".to_owned() } else { format!("{jobs} jobs are") };
    let mut queues: Vec<String> = due().map(|jobs| format!("`{}`", jobs.queue)).collect();
    queues.dedup();
    let more = queues.len().saturating_sub(MOST);
    queues.truncate(MOST);
    let queues = queues.join(", ") + if more > 0 { ", .." } else { "" };
    let what = format!("{are} due, the oldest since {}, and {who}. Queues: {queues}", time(oldest));
    let severity = if late(oldest) { Severity::Error } else { Severity::Warning };
    Some(Finding { severity, ..Finding::warning("no_worker", what, "worker run") })
}

fn unserved_queue(name: &str, jobs: i64, servers: &Servers<'_>) -> Finding {
    let who = match servers.whose {
        Whose::ProgramAlone => "this program does not serve it",
        Whose::ProgramInstead => "neither a live worker nor this program serves it",
        Whose::LiveWorkers | Whose::Nobody => "no live worker serves it",
    };
    let serve = format!("start a worker that serves it: worker run {}", serving(name));
    let repair = match nearest(name, servers.queues()) {
        Some(near) => {
            let (from, to) = (jobs_of(name, None), option("--to", near));
            format!("if `{near}` was meant: worker move {from} {to}; if not, {serve}")
        }
        None => serve,
    };
    Finding::error("unserved_queue", format!("{} in queue `{name}`, and {who}", that_wait(jobs, "")), repair)
}

fn unknown_kind(jobs: &WaitingJobs, servers: &Servers<'_>) -> Finding {
    let WaitingJobs { queue, kind, jobs, .. } = jobs;
    let near = nearest(kind, servers.kinds());
    let meant = near
        .map(|near| format!("if `{near}` was meant, cancel the jobs and enqueue them with this kind; if not, "))
        .unwrap_or_default();
    let who = match servers.whose {
        Whose::ProgramAlone => "this program has no handler for it",
        Whose::ProgramInstead => "neither a live worker nor this program has a handler for it",
        Whose::LiveWorkers | Whose::Nobody => "no live worker that serves the queue has a handler for it",
    };
    Finding::error(
        "unknown_kind",
        format!("{} in queue `{queue}`, and {who}", that_wait(*jobs, &format!(" of kind `{kind}`"))),
        format!(
            "{meant}deploy a program with this kind, give a renamed job `aliases(\"{name}\")`, or end the jobs: \
             worker cancel {}",
            jobs_of(queue, Some(kind)),
            name = without_version(kind),
        ),
    )
}

fn no_slots(name: &str, jobs: i64) -> Finding {
    let what = format!("{} in queue `{name}`, and an operator has set its slots to 0", that_wait(jobs, ""));
    Finding::warning("no_slots", what, format!("worker queues slots {} default", argument(name)))
}

fn oldest_due(name: &str, since: DateTime<Utc>, objective: Duration) -> Finding {
    Finding::error(
        "oldest_due",
        format!(
            "the oldest due job of queue `{name}` has waited since {}, longer than the objective of {} s",
            time(since),
            objective.as_secs()
        ),
        format!("start more workers: worker run {}", serving(name)),
    )
}

/// `1 job of kind .. waits`, `2 jobs wait`.
fn that_wait(jobs: i64, which: &str) -> String {
    if jobs == 1 { format!("1 job{which} waits") } else { format!("{jobs} jobs{which} wait") }
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1)
}

#[cfg(test)]
pub(super) mod tests;
