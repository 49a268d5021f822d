//! An action on jobs that are named by their ids. Each gets an answer, and the exit code is 1 if one was refused.

use std::collections::HashMap;
use std::io;

use diesel_jobs_core::storage::{Action, Operator};
use diesel_jobs_core::{JobId, JobRecord, JobState};

use super::super::app::App;
use super::super::confirm::confirm;
use super::super::exit::{CliError, Exit};
use super::super::{output, wording};
use super::answer::{self, Answer};
use super::args::How;

pub(super) async fn act(
    app: &App<'_>,
    operator: &dyn Operator,
    action: &Action,
    ids: &[JobId],
    how: &How,
    actor: &str,
) -> Result<Exit, CliError> {
    let answers: Vec<Answer> = if how.dry_run {
        let shown = operator.show_many(ids).await?;
        let states: HashMap<JobId, JobState> = shown.iter().map(|(job, _)| (job.id, job.state)).collect();
        ids.iter().map(|id| Answer::of_dry_run(action, *id, states.get(id).copied())).collect()
    } else {
        // A user who writes ids knows the jobs. Only actions that cannot be undone need a confirmation.
        if *action == Action::Delete {
            let jobs = wording::exactly(ids.len() as u64);
            confirm(&format!("delete {jobs}: {}", wording::effect(action)), "delete", how.yes)?;
        }
        let mut answers = Vec::with_capacity(ids.len());
        for batch in ids.chunks(how.batch) {
            match operator.act(action, batch, actor).await {
                Ok(operated) => {
                    answers.extend(batch.iter().zip(operated).map(|(id, operated)| Answer::new(action, *id, operated)));
                }
                Err(problem) => {
                    print(app, &answers, how)?;
                    let (done, left) = (answers.len(), ids.len() - answers.len());
                    let rest = format!(
                        "{problem}. The results for the first {done} jobs are printed above; the outcome of the other {left} is unknown: run the command again for them"
                    );
                    return Err(CliError::new((&problem).into(), rest));
                }
            }
        }
        say_what_they_wait_for(operator, action, &mut answers).await?;
        answers
    };
    print(app, &answers, how)?;
    Ok(if answers.iter().all(Answer::is_done) { Exit::Fine } else { Exit::Failed })
}

/// A retry makes a job with a limit due, and not available. If each job is named, it says so.
async fn say_what_they_wait_for(
    operator: &dyn Operator,
    action: &Action,
    answers: &mut [Answer],
) -> Result<(), CliError> {
    if !matches!(action, Action::Retry | Action::RunNow) || answers.len() > answer::MOST_LINES {
        return Ok(());
    }
    let done: Vec<JobId> = answers.iter().filter(|answer| answer.is_done()).map(Answer::job).collect();
    if done.is_empty() {
        return Ok(());
    }
    let shown: HashMap<JobId, JobRecord> =
        operator.show_many(&done).await?.into_iter().map(|(job, _)| (job.id, job)).collect();
    for answer in answers {
        if let Some(job) = shown.get(&answer.job()).filter(|job| job.state == JobState::Held) {
            answer.waits_for(job);
        }
    }
    Ok(())
}

fn print(app: &App<'_>, answers: &[Answer], how: &How) -> io::Result<()> {
    output::print(app.json, &answers, || answer::summary(answers, how.dry_run))
}
