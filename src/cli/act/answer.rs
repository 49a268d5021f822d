//! What a command did with one job.

use diesel_jobs_core::storage::{Action, Operated};
use diesel_jobs_core::{JobId, JobRecord, JobState, Rule};
use serde::Serialize;

use super::super::{output, wording};

/// The most jobs that are named one by one.
pub(super) const MOST_LINES: usize = 20;

/// What a command did with one job.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Answer {
    id: i64,
    /// `done`, `refused` or `not_found`.
    result: &'static str,
    /// The state that does not allow the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    /// The new job of a `rerun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_id: Option<i64>,
    #[serde(skip)]
    text: String,
}

impl Answer {
    pub(in super::super) fn new(action: &Action, id: JobId, operated: Operated) -> Self {
        let answer = |result, text: String| Self {
            id: id.0,
            result,
            state: None,
            new_id: None,
            text: output::printable(&format!("job {id}{text}")),
        };
        match operated {
            Operated::Done => answer("done", format!(": {}", wording::done(action))),
            Operated::Enqueued(new) => {
                Self { new_id: Some(new.0), ..answer("done", format!(": {} as job {new}", wording::done(action))) }
            }
            Operated::NotFound => answer("not_found", ": there is no such job".to_owned()),
            Operated::Newer => answer(
                "refused",
                " was enqueued by a later version of this program, with a feature that this one does not have; use that version"
                    .to_owned(),
            ),
            Operated::Refused(state) => {
                Self { state: Some(state), ..answer("refused", format!(" is {state}: {}", wording::refused(action))) }
            }
            unknown => answer(
                "refused",
                format!(": the database's answer is {unknown:?}; look at the job with `worker show {id}`"),
            ),
        }
    }

    /// What the command would do with a job in this state. `None`: there is no such job.
    pub(super) fn of_dry_run(action: &Action, id: JobId, state: Option<JobState>) -> Self {
        match state {
            None => Self::new(action, id, Operated::NotFound),
            Some(state) if !action.applies_to(state) => Self::new(action, id, Operated::Refused(state)),
            Some(state) => Self {
                id: id.0,
                result: "would_be_done",
                state: Some(state),
                new_id: None,
                text: format!(
                    "job {id} is {state}, and nothing was changed: `{}` applies to it",
                    wording::command(action)
                ),
            },
        }
    }

    pub(super) const fn job(&self) -> JobId {
        JobId(self.id)
    }

    /// The job is due now, and held.
    pub(super) fn waits_for(&mut self, job: &JobRecord) {
        let [first, others @ ..] = &*job.rules else { return };
        let what = match first.rule {
            Rule::Sequence { .. } => format!("its turn in the sequence `{}`", first.name),
            _ if !others.is_empty() => "its limits".to_owned(),
            Rule::Rate { .. } => format!("a token of the rate `{}`", first.name),
            _ => format!("the limit `{}`", first.name),
        };
        let id = job.id;
        self.text = output::printable(&format!(
            "job {id}: due now, and held: it waits for {what}; `worker why {id}` says more"
        ));
    }

    /// Whether the job was changed, or would be.
    pub(in super::super) fn is_done(&self) -> bool {
        matches!(self.result, "done" | "would_be_done")
    }

    /// In one line.
    pub(in super::super) fn text(&self) -> &str {
        &self.text
    }
}

/// A line for each of these jobs, at most [`MOST_LINES`], and how many others there are.
pub(super) fn lines(answers: &[&Answer]) -> String {
    let mut text: String = answers.iter().take(MOST_LINES).map(|answer| format!("{}\n", answer.text())).collect();
    let others = answers.len().saturating_sub(MOST_LINES) as u64;
    if others > 0 {
        let noun = if others == 1 { "other" } else { "others" };
        text.push_str(&format!("and {} {noun}; --json has them all\n", wording::grouped(others)));
    }
    text
}

/// Jobs that were not changed, and why. Empty if there are none.
pub(super) fn left_out(answers: &[&Answer]) -> String {
    if answers.is_empty() {
        return String::new();
    }
    format!("{} left out:\n{}", wording::exactly(answers.len() as u64), lines(answers))
}

/// All jobs, one by one if there are few of them. With `dry_run` nothing was changed.
pub(super) fn summary(answers: &[Answer], dry_run: bool) -> String {
    if answers.len() <= MOST_LINES {
        return lines(&answers.iter().collect::<Vec<_>>());
    }
    let (done, others): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.is_done());
    let changed = if dry_run { "would be changed" } else { "changed" };
    format!("{} {changed}\n{}", wording::exactly(done.len() as u64), left_out(&others))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(done: i64, refused: i64) -> Vec<Answer> {
        let of = |id, operated| Answer::new(&Action::Cancel, JobId(id), operated);
        let done = (0..done).map(|id| of(id, Operated::Done));
        done.chain((0..refused).map(|id| of(1000 + id, Operated::Refused(JobState::Completed)))).collect()
    }

    #[test]
    fn few_jobs_are_named_one_by_one() {
        let text = summary(&answers(19, 1), false);
        assert_eq!(text.lines().count(), 20);
        assert!(text.starts_with("job 0: cancelled\n") && text.contains("job 1000 is completed: "), "{text}");
    }

    #[test]
    fn of_many_jobs_the_number_is_printed_and_some_of_those_that_were_left_out() {
        assert_eq!(summary(&answers(1000, 0), false), "1,000 jobs changed\n");
        assert_eq!(summary(&answers(21, 0), true), "21 jobs would be changed\n");
        let text = summary(&answers(1, 2500), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[1]), (MOST_LINES + 3, "1 job changed", "2,500 jobs left out:"));
        assert!(lines[2].starts_with("job 1000 is completed: it has ended already"), "{text}");
        assert_eq!(lines.last(), Some(&"and 2,480 others; --json has them all"));
    }
}
