//! Why a job does not run, on a page: the sentence with links to what it names, the buttons that do what it advises,
//! and the command that does the same.

use diesel_jobs_core::storage::HeldBy;
use diesel_jobs_core::{Explained, FailureKind, JobId, Reason, Rule, Why};

use crate::act::Verb;
use crate::format::sentence;
use crate::rights::Action;
use crate::sentence::{Named, Sentence};
use crate::shell::Shell;

/// A button. It leads to the page that asks before anything is changed.
pub(crate) struct Offer {
    pub(crate) label: String,
    pub(crate) url: String,
    pub(crate) destroys: bool,
}

impl Offer {
    /// A button for an action, if the page offers it. The pairs are the fields of the form.
    pub(crate) fn of(
        shell: &Shell,
        right: Action,
        (label, action): (&str, &str),
        pairs: &[(&str, &str)],
    ) -> Option<Self> {
        let pairs = [("action", action)].into_iter().chain(pairs.iter().copied());
        let url = shell.base.with("/confirm", pairs);
        shell.may(right).then(|| Self { label: label.to_owned(), url, destroys: false })
    }

    /// A button for one job.
    pub(crate) fn of_job(shell: &Shell, verb: Verb, label: &str, job: JobId) -> Option<Self> {
        let id = job.to_string();
        let offer = Self::of(shell, verb.right(), (label, verb.name()), &[("id", id.as_str())])?;
        Some(Self { destroys: verb.destroys(), ..offer })
    }

    /// The buttons for the job that halts a sequence.
    pub(crate) fn of_halted(shell: &Shell, job: JobId, retry: &str, (name, key): (&str, &str)) -> Vec<Self> {
        let skip = ("Continue without it", "sequence-skip");
        let skip = Self::of(shell, Action::Limits, skip, &[("name", name), ("key", key)]);
        let skip = skip.map(|offer| Self { destroys: true, ..offer });
        Self::of_job(shell, Verb::Retry, retry, job).into_iter().chain(skip).collect()
    }
}

/// A sentence on a page, with what it advises.
pub(crate) struct Told {
    pub(crate) text: Sentence,
    /// What to do, with the command. It may be empty.
    pub(crate) advice: Sentence,
    pub(crate) offers: Vec<Offer>,
}

/// All reasons of a job.
pub(crate) fn told(shell: &Shell, why: &Why) -> Vec<Told> {
    let one = |explained: &Explained| {
        let named = named(&explained.reason, why);
        let linked = |text: &str| match text {
            "" => Sentence::default(),
            text => Sentence::new(&sentence(text), &named, &shell.base),
        };
        Told {
            text: linked(&explained.text),
            advice: linked(&explained.advice),
            offers: offers(shell, &explained.reason, why),
        }
    };
    why.reasons.iter().map(one).collect()
}

/// What the sentence of a reason names.
fn named(reason: &Reason, why: &Why) -> Vec<Named> {
    let queue = || why.queue.clone().map(Named::Queue);
    let kind = || why.kind.clone().map(Named::Kind);
    match reason {
        Reason::QueuePaused { .. } | Reason::WorkersBusy { .. } | Reason::Behind { .. } => {
            queue().into_iter().collect()
        }
        Reason::KindPaused { .. } => kind().into_iter().collect(),
        Reason::NoWorker { near, .. } => near.clone().map(Named::Queue).into_iter().chain(queue()).collect(),
        Reason::UnknownKind { near, .. } => {
            near.clone().map(Named::Kind).into_iter().chain(queue()).chain(kind()).collect()
        }
        Reason::SlotsBusy { running, .. } => {
            queue().into_iter().chain(running.iter().map(|job| Named::Job(job.id))).collect()
        }
        Reason::Running { worker, .. } => worker.clone().map(Named::Worker).into_iter().collect(),
        Reason::Held(by) => held(by),
        Reason::Halts(halted) => vec![Named::Limit(halted.name.clone())],
        _ => Vec::new(),
    }
}

fn held(by: &HeldBy) -> Vec<Named> {
    let halted = by.halted.iter().map(|(_, job)| *job);
    let jobs = by.holders.iter().copied().chain(by.next).chain(halted).map(Named::Job);
    let several = by.several.iter().flat_map(held);
    [Named::Limit(by.rule.name.clone())].into_iter().chain(jobs).chain(several).collect()
}

/// What can be done about a reason here. If a command cannot be had as a button, the advice has it alone.
fn offers(shell: &Shell, reason: &Reason, why: &Why) -> Vec<Offer> {
    let (queue, kind) = (why.queue.as_deref().unwrap_or_default(), why.kind.as_deref().unwrap_or_default());
    let own = |verb: Verb, label: &str| {
        let applies = why.state.is_some_and(|state| verb.applies_to(state));
        applies.then(|| Offer::of_job(shell, verb, label, why.id)).flatten()
    };
    let cancel = || own(Verb::Cancel, "Cancel this job");
    let one = match reason {
        Reason::Held(by) => return of_held(shell, by, why.id),
        Reason::Halts(halted) => {
            return Offer::of_halted(shell, why.id, "Retry this job", (&halted.name, &halted.key));
        }
        Reason::QueuePaused { .. } => {
            Offer::of(shell, Action::Pause, ("Resume the queue", "queue-resume"), &[("name", queue)])
        }
        Reason::KindPaused { .. } => {
            Offer::of(shell, Action::Pause, ("Resume the kind", "kind-resume"), &[("name", kind)])
        }
        Reason::SlotsBusy { .. } => {
            Offer::of(shell, Action::Slots, ("Change the slots", "queue-slots"), &[("name", queue)])
        }
        Reason::Scheduled { .. } => own(Verb::RunNow, "Run now"),
        Reason::Retrying { failure: Some(FailureKind::Undecodable), .. } => cancel(),
        Reason::Retrying { .. } => own(Verb::Retry, "Retry now"),
        Reason::NoWorker { near: Some(near), .. } => {
            let id = why.id.to_string();
            let pairs = [("id", id.as_str()), ("queue", near.as_str())];
            Offer::of(shell, Action::Move, ("Move this job", Verb::Move.name()), &pairs)
        }
        Reason::UnknownKind { .. } | Reason::Quarantined { .. } | Reason::Running { alive: true, .. } => cancel(),
        _ => None,
    };
    one.into_iter().collect()
}

fn of_held(shell: &Shell, by: &HeldBy, id: JobId) -> Vec<Offer> {
    if let Some((_, job)) = by.halted {
        let retry = format!("Retry job {job}");
        return Offer::of_halted(shell, job, &retry, (&by.rule.name, &by.rule.key));
    }
    // It waits for its turn, whatever the limits are.
    if by.rule.rule.on_discard().is_some() && !by.holders.contains(&id) {
        return Vec::new();
    }
    let rules = if by.several.is_empty() { std::slice::from_ref(by) } else { &by.several };
    // Only these have a number that can be set.
    let full =
        rules.iter().filter(|by| matches!(by.rule.rule, Rule::Concurrency { .. }) && by.taken >= by.most().into());
    let of_limit = |by: &HeldBy| {
        let name = by.rule.name.as_str();
        let lowered = by.set.as_ref().is_some_and(|set| by.rule.rule.most().is_some_and(|most| set.most <= most));
        let of = if lowered { "reset" } else { "set" };
        let label = match (of, rules.len()) {
            ("set", 1) => "Set the limit".to_owned(),
            ("set", _) => format!("Set the limit {name}"),
            (_, 1) => "Reset the limit".to_owned(),
            _ => format!("Reset the limit {name}"),
        };
        Offer::of(shell, Action::Limits, (&label, &format!("limit-{of}")), &[("name", name)])
    };
    full.filter_map(of_limit).collect()
}
