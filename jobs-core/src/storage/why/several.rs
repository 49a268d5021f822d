//! What a job with several limits waits for, in words.

use super::super::{HeldBy, MOST_AHEAD, Tokens};
use super::times::exactly;
use crate::job_id::JobId;
use crate::rules::{JobRule, keyed};
use crate::shell::argument;

/// Whether the job waits for its limits, and not for its turn in a sequence.
pub(super) fn has_its_turn(id: JobId, by: &HeldBy) -> bool {
    by.rule.rule.on_discard().is_none() || by.holders.contains(&id) && by.halted.is_none()
}

pub(super) fn explain(HeldBy { ahead, several, .. }: &HeldBy) -> (String, String) {
    let of = |full: bool| several.iter().filter(move |by| by.rule.rule.on_discard().is_none() && is_full(by) == full);
    let all: Vec<String> = of(true).map(full).chain(of(false).map(free)).collect();
    let line = match ahead {
        0 => String::new(),
        1 => "; 1 job with the same limits and keys comes before it".to_owned(),
        _ if *ahead > MOST_AHEAD => {
            format!("; more than {MOST_AHEAD} jobs with the same limits and keys come before it")
        }
        _ => format!("; {ahead} jobs with the same limits and keys come before it"),
    };
    let text = format!("the job starts when all its limits allow it at once: {}{line}", all.join("; "));
    let advice = match of(true).find(|by| !by.rule.rule.is_rate()) {
        Some(HeldBy { rule: JobRule { name, .. }, .. }) => format!(
            "wait; `worker show` or `worker why` with one of these jobs says what it does; `worker limits set {} N` lets more of them run at once",
            argument(name)
        ),
        None if of(true).next().is_some() || *ahead > 0 => "wait".to_owned(),
        None => "the next pass of admission takes the job; if nothing changes within a few seconds, no worker of this version is alive: `worker run`".to_owned(),
    };
    (text, advice)
}

fn is_full(by: &HeldBy) -> bool {
    match by.tokens {
        Some(Tokens { next, .. }) => next > by.now,
        None => by.taken >= u64::from(by.most()),
    }
}

fn full(by: &HeldBy) -> String {
    let (name, keyed) = (&by.rule.name, keyed(&by.rule.key));
    if let Some(Tokens { next, .. }) = by.tokens {
        return format!("rate `{name}`, {keyed}, has no token before {}", exactly(next));
    }
    let set = by.set.as_ref().map(|set| format!(" ({set})")).unwrap_or_default();
    let jobs: Vec<String> = by.holders.iter().map(|job| format!("job {job}")).collect();
    let taken = if jobs.is_empty() { "it allows none".to_owned() } else { jobs.join(", ") };
    format!("limit `{name}`, {keyed}, is full with {} of {}{set}: {taken}", by.taken, by.most())
}

fn free(by: &HeldBy) -> String {
    let (name, keyed) = (&by.rule.name, keyed(&by.rule.key));
    if by.tokens.is_some() {
        return format!("rate `{name}`, {keyed}, has a token");
    }
    format!("limit `{name}`, {keyed}, has a free permit: {} of {} are taken", by.taken, by.most())
}
