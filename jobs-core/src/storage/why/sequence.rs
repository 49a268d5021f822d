//! What a job of a sequence waits for, and which sequence a discarded job halts, in words.

use super::super::{HaltedSequence, HeldBy, MOST_AHEAD};
use super::times::time;
use crate::job_id::JobId;
use crate::rules::{JobRule, keyed};
use crate::shell::{argument, word};

/// What a held job of a sequence waits for.
pub(super) fn waits(id: JobId, HeldBy { rule, holders, ahead, next, halted, .. }: &HeldBy) -> (String, String) {
    let JobRule { name, key, .. } = rule;
    let keyed = keyed(key);
    let line = match ahead {
        0 => "no job comes before it".to_owned(),
        1 => "1 job comes before it".to_owned(),
        _ if *ahead > MOST_AHEAD => format!("more than {MOST_AHEAD} jobs come before it"),
        _ => format!("{ahead} jobs come before it"),
    };
    if let Some((at, job)) = halted {
        let text =
            format!("sequence `{name}` is halted for {keyed} since {}: job {job} was discarded; {line}", time(*at));
        let advice = format!(
            "`worker retry {job}` runs that job again; `worker sequences skip {} {}` continues without it",
            argument(name),
            word(key)
        );
        return (text, advice);
    }
    if *next == Some(id) {
        return (
            format!("sequence `{name}`, {keyed}: it is the turn of this job; the next pass of admission takes it"),
            "if nothing changes within a few seconds, no worker of this version is alive: `worker run`".to_owned(),
        );
    }
    match (holders.first(), next) {
        (Some(job), _) => (
            format!("sequence `{name}` runs one job at a time for {keyed}: job {job} has not ended; {line}"),
            format!("wait; `worker why {job}` says what that job does"),
        ),
        (None, Some(job)) => (
            format!(
                "sequence `{name}` runs its jobs in order for {keyed}: job {job} is next, and has not started; {line}"
            ),
            format!("wait; `worker why {job}` says what that job waits for"),
        ),
        (None, None) => (
            format!("sequence `{name}`, {keyed}: the job before it has just ended"),
            "the next pass of admission takes it".to_owned(),
        ),
    }
}

/// Which sequence this discarded job halts, and how it continues. `is_kept`: the job was not deleted.
pub(super) fn halts(id: JobId, sequence: &HaltedSequence, is_kept: bool) -> (String, String) {
    let HaltedSequence { name, key, .. } = sequence;
    let skip = format!("`worker sequences skip {} {}` continues without it", argument(name), word(key));
    let advice = if is_kept { format!("`worker retry {id}` runs it again; {skip}") } else { skip };
    (format!("this job halts the sequence `{name}` for {}: {}", keyed(key), sequence.waiting_text()), advice)
}
