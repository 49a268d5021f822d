//! An action on the newest jobs that match, up to a limit: page by page. It is no operation, because an operation has
//! no limit.

use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{Action, BETWEEN_STEPS, JobFilter, MAX_PAGE, Operator, Paging, StorageResult};

use super::super::exit::CliError;
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::super::wording;
use super::answer::Answer;
use super::interrupt;

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    /// How many jobs were changed.
    pub(super) changed: u64,
    /// Jobs that matched and had moved before they could be changed.
    pub(super) left_out: Vec<Answer>,
    /// Whether the user has interrupted the command.
    pub(super) is_interrupted: bool,
}

/// At most this many jobs, and in one batch.
#[derive(Clone, Copy)]
pub(super) struct Most {
    pub(super) jobs: usize,
    pub(super) per_batch: usize,
}

pub(super) async fn act(
    operator: &dyn Operator,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
    most: Most,
    signals: &mut Signals,
) -> Result<Done, CliError> {
    let (mut done, mut before) = (Done::default(), None);
    let progress = Progress::of_jobs(most.jobs as u64);
    loop {
        let left = most.jobs - usize::try_from(done.changed).unwrap_or(most.jobs).min(most.jobs);
        if left == 0 {
            return Ok(done);
        }
        let paging = Paging { before, after: None, limit: left.min(most.per_batch).min(MAX_PAGE) };
        let batch = page(operator, action, filter, actor, paging);
        let Some((result, is_interrupted)) = interrupt::batch(batch, &progress, signals).await else {
            return Ok(Done { is_interrupted: true, ..done });
        };
        let (answers, searched_to) = result.map_err(|problem| {
            let changed = wording::exactly(done.changed);
            CliError::new(
                (&problem).into(),
                format!("{problem}. {changed} were changed before; run the command again for the rest"),
            )
        })?;
        for answer in answers {
            if answer.is_done() {
                done.changed += 1;
            } else {
                done.left_out.push(answer);
            }
        }
        progress.at(done.changed);
        before = searched_to;
        if before.is_none() {
            return Ok(done);
        }
        if is_interrupted || interrupt::pause(BETWEEN_STEPS, signals).await {
            return Ok(Done { is_interrupted: true, ..done });
        }
    }
}

/// Acts on the jobs of one page. Returns where the next page begins.
async fn page(
    operator: &dyn Operator,
    action: &Action,
    filter: &JobFilter,
    actor: &str,
    paging: Paging,
) -> StorageResult<(Vec<Answer>, Option<JobId>)> {
    let page = operator.list(filter, paging).await?;
    let ids: Vec<JobId> = page.jobs.iter().map(|job| job.id).collect();
    let operated = if ids.is_empty() { Vec::new() } else { operator.act(action, &ids, actor).await? };
    let answers = ids.iter().zip(operated).map(|(id, operated)| Answer::new(action, *id, operated)).collect();
    Ok((answers, page.searched_to))
}
