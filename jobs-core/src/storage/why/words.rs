//! The reasons in words, and what to do.

use std::fmt::Display;

use chrono::{DateTime, Utc};

use super::super::{HeldBy, MOST_AHEAD, RowLock, Tokens};
use super::times::{exactly, time};
use super::{Explained, Reason, ended, sequence, several, tenants};
use crate::failure::FailureKind;
use crate::job_id::JobId;
use crate::progress::Progress;
use crate::rules::{JobRule, Rule, keyed, period_text};
use crate::shell::{argument, option, serving};

/// Puts a reason in words. Queue and kind are empty only if there is no such job.
pub(super) fn explain(id: JobId, queue: &str, kind: &str, reason: Reason) -> Explained {
    let (in_shell, served) = (argument(queue), serving(queue));
    let (text, advice) = match &reason {
        Reason::NoSuchJob { highest } => no_such_job(id, *highest),
        Reason::DeadLetter { why, at } => (
            format!("the database refused to move the job, so it was set apart at {}: {why}", time(*at)),
            format!(
                "enqueue it again under a new id: `select jobs.put_back(number) from jobs.dead_letter where id = {id}`"
            ),
        ),
        Reason::Ended { .. } => ended::explain(id, kind, &reason),
        Reason::Running { worker, alive, since, progress } => {
            running(id, worker.as_deref(), *alive, *since, progress.as_ref())
        }
        Reason::NewerVersion => (
            "the job uses a feature of a later version of this program, so workers of this version leave it alone"
                .to_owned(),
            "start workers of the later version".to_owned(),
        ),
        Reason::Frozen { freeze } => {
            (format!("the database is {freeze}; nothing is claimed"), "`worker thaw` ends the freeze".to_owned())
        }
        Reason::QueuePaused { pause } => {
            (format!("queue `{queue}` is {pause}"), format!("`worker queues resume {in_shell}` ends the pause"))
        }
        Reason::KindPaused { pause } => {
            (format!("kind `{kind}` is {pause}"), format!("`worker kinds resume {}` ends the pause", argument(kind)))
        }
        Reason::Locked(lock) => locked(lock),
        Reason::Scheduled { at } => {
            (format!("the job waits for its time: {}", time(*at)), format!("`worker run-now {id}` makes it due now"))
        }
        Reason::Retrying { at, error, failure } => (
            format!("its last attempt failed, and the next one is at {}{}", time(*at), after(error.as_deref())),
            match failure {
                Some(FailureKind::Undecodable) => ended::undecodable(id, kind, &format!("`worker cancel {id}`, and ")),
                _ => format!("`worker retry {id}` makes it due now"),
            },
        ),
        Reason::NoWorker { quiet: 1, .. } => (
            format!(
                "1 live worker serves queue `{queue}`, and drains or was asked to be quiet or to stop, so it claims nothing"
            ),
            format!("start another one: `worker run {served}`; `worker workers` shows its state"),
        ),
        Reason::NoWorker { quiet, .. } if *quiet > 1 => (
            format!(
                "{quiet} live workers serve queue `{queue}`, and all of them drain or were asked to be quiet or to stop, so they claim nothing"
            ),
            format!("start another one: `worker run {served}`; `worker workers` shows their states"),
        ),
        Reason::NoWorker { alive: 0, .. } => ("no worker is alive".to_owned(), "start one: `worker run`".to_owned()),
        Reason::NoWorker { alive, near, .. } => (
            match alive {
                1 => format!("1 worker is alive, and it does not serve queue `{queue}`"),
                _ => format!("{alive} workers are alive, and none of them serves queue `{queue}`"),
            },
            match near {
                Some(near) => format!(
                    "if `{near}` was meant: `worker move {id} {}`; if not, start a worker that serves it: `worker run {served}`",
                    option("--to", near)
                ),
                None => format!("start one that does: `worker run {served}`"),
            },
        ),
        Reason::UnknownKind { workers, near } => (
            match workers {
                1 => format!("1 live worker serves queue `{queue}`, and its program has no kind `{kind}`"),
                _ => format!(
                    "{workers} live workers serve queue `{queue}`, and no program of theirs has the kind `{kind}`"
                ),
            },
            match near {
                Some(near) => format!(
                    "if `{near}` was meant: `worker cancel {id}`, and enqueue the job with this kind; if not, deploy a program that has the \
                     kind `{kind}`"
                ),
                None => format!("deploy a program that has the kind `{kind}`, or `worker cancel {id}`"),
            },
        ),
        Reason::Quarantined { crashes } => (
            format!(
                "the job was in {crashes} crashes of its workers, so it runs alone: when a worker has finished all its other jobs"
            ),
            format!("`worker show {id}` names the crashes; `worker cancel {id}` ends it"),
        ),
        Reason::SlotsBusy { slots: 0, .. } => (
            format!("queue `{queue}` has no slots: an operator has set 0 for each worker"),
            format!(
                "`worker queues slots {in_shell} N` gives it slots, and `worker queues slots {in_shell} default` those of its workers"
            ),
        ),
        Reason::SlotsBusy { slots, running } => {
            let jobs: Vec<String> = running.iter().map(|job| format!("job {} (`{}`)", job.id, job.kind)).collect();
            let others = others(*slots, jobs.len());
            (
                format!("all {slots} slots of queue `{queue}` are taken: {}{others}", jobs.join(", ")),
                format!("wait, start another worker, or give it more slots: `worker queues slots {in_shell} N`"),
            )
        }
        Reason::WorkersBusy { slots, workers } => (
            match workers {
                1 => format!(
                    "the worker that serves queue `{queue}` is running {slots} jobs, its maximum across all queues"
                ),
                _ => format!(
                    "the {workers} workers that serve queue `{queue}` are running {slots} jobs, their maximum across all queues"
                ),
            },
            "wait, start another worker, or start them with more slots: `--slots-total N`".to_owned(),
        ),
        Reason::Behind { jobs, more } => {
            let more = if *more { "more than " } else { "" };
            let noun = if *jobs == 1 { "job comes" } else { "jobs come" };
            (
                format!("{more}{jobs} due {noun} first in queue `{queue}`: of a higher priority, or earlier"),
                "wait, or start more workers".to_owned(),
            )
        }
        Reason::Held(by) => held(id, by),
        Reason::Halts(halted) => sequence::halts(id, halted, !queue.is_empty()),
        Reason::Due => ("nothing holds the job back: the next claim takes it".to_owned(), String::new()),
    };
    Explained { reason, text, advice }
}

fn held(id: JobId, by: &HeldBy) -> (String, String) {
    if !by.several.is_empty() && several::has_its_turn(id, by) {
        return several::explain(by);
    }
    match by.rule.rule {
        Rule::Sequence { .. } => sequence::waits(id, by),
        Rule::Rate { limit, per, burst, .. } => rated(limit, &period_text(per), burst, by),
        Rule::Concurrency { most, .. } => limited(most, by),
    }
}

fn rated(limit: u32, per: &str, burst: u32, by: &HeldBy) -> (String, String) {
    let HeldBy { rule: JobRule { name, key, rule, .. }, ahead, tokens, .. } = by;
    let keyed = keyed(key);
    let text = format!("rate `{name}` lets {limit} jobs start in {per} for {keyed}, and {burst} at once");
    let line = match ahead {
        0 => "no job of this key comes before it".to_owned(),
        1 => "1 job of this key comes before it".to_owned(),
        _ if *ahead > MOST_AHEAD => format!("more than {MOST_AHEAD} jobs of this key come before it"),
        _ => format!("{ahead} jobs of this key come before it"),
    };
    let rule = rule.on_full().shown();
    let Some(Tokens { next, own }) = tokens else {
        return (format!("{text}; {line}{rule}"), "wait".to_owned());
    };
    let advice = "wait; if nothing changes by then, no worker of this version is alive: `worker run`".to_owned();
    if next == own {
        return (format!("{text}: the next token comes at {}; {line}{rule}", exactly(*next)), advice);
    }
    (
        format!(
            "{text}: the next token comes at {}, and the one for this job at {}; {line}{rule}",
            exactly(*next),
            exactly(*own)
        ),
        advice,
    )
}

fn limited(declared: u32, by: &HeldBy) -> (String, String) {
    let HeldBy { rule: JobRule { name, key, rule, tenant }, set, taken, holders, ahead, .. } = by;
    let (most, keyed) = (by.most(), keyed(key));
    let allows = match set {
        Some(set) => format!("limit `{name}` allows {most} at once for {keyed} ({set}; the job says {declared})"),
        None => format!("limit `{name}` allows {declared} at once for {keyed}"),
    };
    let change = match set {
        Some(_) => format!("`worker limits reset {}` lets {declared} run at once again", argument(name)),
        None => format!("`worker limits set {} N` lets more of them run at once", argument(name)),
    };
    if most == 0 && *taken == 0 {
        return (format!("{allows}, so none starts"), change);
    }
    let turns = tenant.as_deref().map(|tenant| tenants::turns(tenant, by));
    let jobs: Vec<String> = holders.iter().map(|job| format!("job {job}")).collect();
    if *taken >= u64::from(most) {
        let line = match ahead {
            _ if turns.is_some() => turns.unwrap_or_default(),
            0 => String::new(),
            1 => "; 1 job of this key comes before it".to_owned(),
            _ if *ahead > MOST_AHEAD => format!("; more than {MOST_AHEAD} jobs of this key come before it"),
            _ => format!("; {ahead} jobs of this key come before it"),
        };
        let (are, others) = (if *taken == 1 { "is" } else { "are" }, others(*taken, jobs.len()));
        let text =
            format!("{allows}, and {taken} {are} taken: {}{others}{line}{}", jobs.join(", "), rule.on_full().shown());
        let advice = format!("wait; `worker show` or `worker why` with one of these jobs says what it does; {change}");
        return (text, advice);
    }
    let next = match turns {
        Some(turns) => format!("the next pass of admission takes the next job{turns}"),
        None => "the next pass of admission takes the job".to_owned(),
    };
    let text = format!("{allows}: {taken} of {most} are taken, so a permit is free; {next}");
    (text, "if nothing changes within a few seconds, no worker of this version is alive: `worker run`".to_owned())
}

/// Only some of the jobs are named.
const fn others(number: u64, named: usize) -> &'static str {
    if number > named as u64 && named > 0 { " and others" } else { "" }
}

fn no_such_job(id: JobId, highest: Option<JobId>) -> (String, String) {
    let text = match highest {
        Some(highest) if id < highest => format!(
            "there is no job {id}. Later jobs exist (up to {highest}), so it was deleted: its retention was over, its kind keeps no \
             completed jobs, an operator deleted it, or its transaction was rolled back"
        ),
        Some(highest) => {
            format!("there is no job {id}, and no later one (the highest id is {highest}). It may not be committed yet")
        }
        None => format!("there is no job {id}, nor any other job"),
    };
    (text, "`worker list` prints the jobs that are kept".to_owned())
}

fn running(
    id: JobId,
    worker: Option<&str>,
    alive: bool,
    since: Option<DateTime<Utc>>,
    progress: Option<&Progress>,
) -> (String, String) {
    let since = since.map(|at| format!(" since {}", time(at))).unwrap_or_default();
    let step = progress.map(|Progress { done, total, message, at }| {
        format!("; it reported {done} of {total} at {}: {message}", time(*at))
    });
    let step = step.unwrap_or_default();
    match worker {
        Some(worker) if alive => {
            (format!("the job runs{since} in {worker}{step}"), format!("if it hangs: `worker cancel {id}`"))
        }
        Some(worker) => (
            format!("the job was claimed{since} by {worker}, and this worker is dead: its lease is over{step}"),
            "a live worker frees it within seconds; if none is alive: `worker run`".to_owned(),
        ),
        None => (
            format!("the job was claimed{since} by a worker that is no longer registered{step}"),
            "a live worker frees it within a minute; if none is alive: `worker run`".to_owned(),
        ),
    }
}

fn locked(RowLock { pid, name, since }: &RowLock) -> (String, String) {
    let since = since.map(|at| format!(", which began at {}", time(at))).unwrap_or_default();
    match pid {
        Some(pid) => (
            format!(
                "its row is locked by the transaction of process {pid} ({name}){since}; claims pass over locked rows"
            ),
            format!("end that transaction: `select pg_terminate_backend({pid})`"),
        ),
        None => (
            format!("its row is locked by the prepared transaction {name}{since}; claims pass over locked rows"),
            format!("end it: `commit prepared '{name}'` or `rollback prepared '{name}'`"),
        ),
    }
}

fn after(error: Option<&str>) -> impl Display {
    error.map(|error| format!(": {error}")).unwrap_or_default()
}
