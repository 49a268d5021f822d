//! `export`: writes jobs as lines of JSON, oldest first.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use clap::Args;
use diesel_jobs_core::storage::{JobFilter, Operator, Paging};
use diesel_jobs_core::{JobId, JobRecord, JobState, Registry, flags};

use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::filter_args::FilterArgs;
use super::super::progress::Progress;
use super::super::{database, output, redact, wording};
use super::line::{self, Beside};

/// Jobs per page. Each may have 256 KiB of arguments.
const PAGE: usize = 200;

#[derive(Debug, Args)]
pub(in super::super) struct ExportArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

/// What was written.
#[derive(Default)]
struct Exported {
    jobs: u64,
    redacted: u64,
    /// Whether the reader of the output has closed it, as `head` does. Then it is unknown how much it has read.
    is_cut: bool,
}

pub(in super::super) async fn export(app: &App<'_>, args: &ExportArgs) -> Result<Exit, CliError> {
    let filter = args.filter.filter()?;
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let operator = &*database.operator;
    // Jobs that are enqueued during the export are left out, so that it ends.
    let newest = operator.list(&JobFilter::default(), Paging::newest(1)).await?.jobs.pop();
    let exported = match newest {
        None => Exported::default(),
        Some(newest) => {
            let progress = if io::stdout().is_terminal() {
                None
            } else {
                Some(Progress::of_jobs(operator.count(&filter).await?.jobs))
            };
            write(operator, &filter, newest.id, progress.as_ref()).await?
        }
    };
    if exported.is_cut {
        output::complain("warning: the export is not complete: the reader of the output has closed it");
        return Ok(Exit::Fine);
    }
    if !app.json {
        output::complain(&format!("exported {}", wording::exactly(exported.jobs)));
    }
    if exported.redacted > 0 {
        output::complain(&format!(
            "warning: secret arguments of {} are left out; `import` refuses these lines",
            wording::exactly(exported.redacted)
        ));
    }
    Ok(Exit::Fine)
}

async fn write(
    operator: &dyn Operator,
    filter: &JobFilter,
    last: JobId,
    progress: Option<&Progress>,
) -> Result<Exported, CliError> {
    let registry = Registry::linked();
    let (mut exported, mut paging) = (Exported::default(), Paging::after(JobId(i64::MIN), PAGE));
    loop {
        let page = operator.list(filter, paging).await?;
        let mut jobs = Vec::new();
        for job in page.jobs.into_iter().rev().filter(|job| job.id <= last) {
            let beside = beside(operator, &job).await?;
            jobs.push((job, beside));
        }
        let mut out = BufWriter::new(io::stdout().lock());
        for (job, beside) in &jobs {
            let args = redact::arguments(&registry, job);
            let line = line::write(job, &args, beside).map_err(|problem| {
                CliError::failed(format!("the arguments of job {} are no JSON: {problem}", job.id))
            })?;
            match out.write_all(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Exported { is_cut: true, ..exported });
                }
                written => written?,
            }
            exported.jobs += 1;
            exported.redacted += u64::from(args.are_redacted);
        }
        match out.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Exported { is_cut: true, ..exported });
            }
            written => written?,
        }
        drop(out);
        if let Some(progress) = progress {
            progress.at(exported.jobs);
        }
        paging.after = page.searched_to;
        if page.searched_to.is_none_or(|id| id >= last) {
            return Ok(exported);
        }
    }
}

/// What a job has besides its row. Only the flags of jobs that have it cost a statement.
async fn beside(operator: &dyn Operator, job: &JobRecord) -> Result<Beside, CliError> {
    let mut beside = Beside::default();
    if job.state.is_finished() {
        return Ok(beside);
    }
    if job.flags & flags::UNIQUE != 0 {
        beside.unique_key = operator.unique_key(job.id).await?.filter(|key| key.in_effect);
    }
    if job.flags & flags::EXPIRES != 0 && job.state != JobState::Running {
        beside.start_by = operator.surroundings(job.id).await?.start_by;
    }
    Ok(beside)
}
