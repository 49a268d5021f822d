//! `import`: enqueues jobs from lines of JSON. All lines are checked before the first job is enqueued.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use diesel_jobs_core::storage::{Operator, STEP, key_text};
use diesel_jobs_core::{Enqueued, JobId, NewJob, StorageError};
use serde::Serialize;

use super::super::act::interrupt;
use super::super::actor_args::Who;
use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::parse;
use super::super::progress::Progress;
use super::super::signals::Signals;
use super::super::{database, output, wording};
use super::line::{self, Others};
use super::source::{Line, Source};

/// At most this many bytes of arguments in one transaction, apart from the last job.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The action in the audit.
const IMPORT: &str = "import";
/// How many wrong lines are named.
const NAMED: usize = 10;

#[derive(Debug, Args)]
pub(in super::super) struct ImportArgs {
    /// A file with one job per line, as `export` writes it; `-` is standard input
    #[arg(value_parser = PathBufValueParser::new().try_map(parse::path))]
    file: PathBuf,
    /// Jobs that ran or had ended when they were exported
    #[arg(long, value_enum, default_value_t = Others::Refuse)]
    others: Others,
    /// Leave out the lines before this one
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse::line)]
    from_line: u64,
    /// Only check the lines
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    who: Who,
}

impl ImportArgs {
    /// Whether the lines are not only checked.
    pub(in super::super) fn needs_database(&self) -> bool {
        !self.dry_run
    }
}

/// The answer in JSON.
#[derive(Default, Serialize)]
struct Imported {
    dry_run: bool,
    /// How many jobs the lines contain, without those that are left out.
    jobs: u64,
    /// How many lines are left out.
    skipped: u64,
    imported: u64,
    /// How many lines were not imported, because another job has their unique key.
    taken: u64,
    interrupted: bool,
    first_id: Option<JobId>,
    last_id: Option<JobId>,
    /// The line after the last one that was imported.
    #[serde(skip)]
    next_line: u64,
}

/// Jobs for one transaction, and their lines.
#[derive(Default)]
struct Batch {
    jobs: Vec<NewJob>,
    lines: Vec<u64>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.jobs.len() >= STEP || self.bytes >= BATCH_BYTES
    }
}

pub(in super::super) async fn import(app: &App<'_>, args: &ImportArgs) -> Result<Exit, CliError> {
    let unreadable = |error| CliError::failed(format!("reading {}: {error}", args.file.display()));
    let actor = args.who.name(app)?;
    let source = Source::open(&args.file).map_err(unreadable)?;
    let mut imported = check(&source, args)?;
    if !args.dry_run && imported.jobs > 0 {
        let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
        database.storage.check_schema().await?;
        let now = database.storage.schedules(&[]).await?.now;
        enqueue(&*database.operator, &source, args, (&actor, now), &mut imported).await?;
    }
    output::print(app.json, &imported, || said(&imported))?;
    Ok(if imported.interrupted { Exit::Failed } else { Exit::Fine })
}

fn said(imported: &Imported) -> String {
    let jobs = wording::exactly(imported.imported);
    let mut text = match imported {
        Imported { dry_run: true, jobs, .. } => {
            format!("nothing was imported; the lines contain {}\n", wording::exactly(*jobs))
        }
        Imported { interrupted: true, next_line, .. } => {
            format!("interrupted: {jobs} imported; --from-line {next_line} continues\n")
        }
        Imported { first_id: Some(first), last_id: Some(last), .. } => {
            format!("imported {jobs}, with the ids {first} to {last}\n")
        }
        Imported { taken: 1.., .. } => "nothing was imported\n".to_owned(),
        _ => "the lines contain no job to import\n".to_owned(),
    };
    if imported.taken > 0 {
        text.push_str(&format!("left out {} whose unique keys other jobs have\n", wording::exactly(imported.taken)));
    }
    if imported.skipped > 0 {
        text.push_str(&format!("left out {} that ran or had ended\n", wording::exactly(imported.skipped)));
    }
    text
}

/// Reads a line. The text of a problem names it.
fn parsed(line: &Line, others: Others, now: DateTime<Utc>) -> Result<Option<NewJob>, String> {
    let job = match &line.text {
        Some(text) => line::read(text, others, now),
        None => Err("it is longer than the line of any job".to_owned()),
    };
    job.map_err(|problem| output::printable(&format!("line {}: {problem}", line.number)))
}

/// Checks all lines. If one is wrong, nothing is imported.
fn check(source: &Source, args: &ImportArgs) -> Result<Imported, CliError> {
    let unreadable = |error| CliError::failed(format!("reading {}: {error}", args.file.display()));
    let mut imported = Imported { dry_run: args.dry_run, next_line: args.from_line, ..Imported::default() };
    let (mut problems, mut wrong) = (Vec::new(), 0);
    for line in source.lines().map_err(unreadable)? {
        let line = line.map_err(unreadable)?;
        if line.number < args.from_line {
            continue;
        }
        match parsed(&line, args.others, Utc::now()) {
            Ok(Some(_)) => imported.jobs += 1,
            Ok(None) => imported.skipped += 1,
            Err(problem) => {
                wrong += 1;
                if problems.len() < NAMED {
                    problems.push(problem);
                }
            }
        }
    }
    if wrong == 0 {
        return Ok(imported);
    }
    let more =
        if wrong > problems.len() { format!("\nand {} more lines", wrong - problems.len()) } else { String::new() };
    Err(CliError::failed(format!("nothing was imported, because lines are wrong:\n{}{more}", problems.join("\n"))))
}

/// Imports the lines in batches.
async fn enqueue(
    operator: &dyn Operator,
    source: &Source,
    args: &ImportArgs,
    (actor, now): (&str, DateTime<Utc>),
    imported: &mut Imported,
) -> Result<(), CliError> {
    let unreadable = |error| CliError::failed(format!("reading {}: {error}", args.file.display()));
    let mut signals = Signals::install()?;
    let progress = Progress::of_jobs(imported.jobs);
    let mut lines = source.lines().map_err(unreadable)?;
    loop {
        let mut batch = Batch::default();
        for line in lines.by_ref() {
            let line = line.map_err(unreadable)?;
            if line.number < args.from_line {
                continue;
            }
            // It was checked, but the file may have changed since.
            let job = parsed(&line, args.others, now).map_err(|problem| stopped(&problem, imported))?;
            if let Some(job) = job {
                batch.bytes += job.args.len();
                batch.jobs.push(job);
                batch.lines.push(line.number);
            }
            if batch.is_full() {
                break;
            }
        }
        let Some(last_line) = batch.lines.last().copied() else { return Ok(()) };
        let work = store(operator, &batch, actor, imported);
        let Some((stored, is_interrupted)) = interrupt::batch(work, &progress, &mut signals).await else {
            let first = batch.lines.first().copied().unwrap_or(last_line);
            return Err(CliError::failed(unsure(first, last_line)));
        };
        stored?;
        progress.at(imported.imported + imported.taken);
        if is_interrupted {
            imported.interrupted = imported.imported + imported.taken < imported.jobs;
            return Ok(());
        }
    }
}

/// Imports a batch in one transaction. If the database refuses it, its jobs are imported one by one, to find the wrong
/// line.
async fn store(operator: &dyn Operator, batch: &Batch, actor: &str, imported: &mut Imported) -> Result<(), CliError> {
    let (first, last) = (batch.lines.first().copied().unwrap_or(1), batch.lines.last().copied().unwrap_or(1));
    match operator.enqueue(&batch.jobs, IMPORT, actor).await {
        Ok(ids) => {
            note(imported, batch, &ids, last);
            Ok(())
        }
        Err(StorageError::Refused(_)) => {
            for (job, line) in batch.jobs.iter().zip(&batch.lines) {
                let ids = operator.enqueue(std::slice::from_ref(job), IMPORT, actor).await;
                let ids =
                    ids.map_err(|problem| stopped(&output::printable(&format!("line {line}: {problem}")), imported))?;
                let one = Batch { jobs: vec![job.clone()], lines: vec![*line], bytes: 0 };
                note(imported, &one, &ids, *line);
            }
            Ok(())
        }
        Err(problem) if problem.is_transient() => {
            Err(CliError::new((&problem).into(), format!("{problem}. {}", unsure(first, last))))
        }
        Err(problem) => Err(problem.into()),
    }
}

fn note(imported: &mut Imported, batch: &Batch, jobs: &[Enqueued], line: u64) {
    for ((enqueued, job), line) in jobs.iter().zip(&batch.jobs).zip(&batch.lines) {
        if let Some(unique) = job.unique.as_ref().filter(|_| enqueued.is_existing()) {
            imported.taken += 1;
            output::complain(&output::printable(&format!(
                "line {line} was not imported: job {enqueued} has its unique key {} of `{}`",
                key_text(&unique.key),
                unique.name
            )));
        }
    }
    let ids: Vec<JobId> = jobs.iter().filter(|job| !job.is_existing()).map(|job| job.id()).collect();
    imported.imported += ids.len() as u64;
    imported.first_id = imported.first_id.or_else(|| ids.iter().min().copied());
    imported.last_id = ids.iter().max().copied().or(imported.last_id);
    imported.next_line = line + 1;
}

/// The error of a line in the middle of the import.
fn stopped(problem: &str, imported: &Imported) -> CliError {
    let (jobs, next) = (wording::exactly(imported.imported), imported.next_line);
    CliError::failed(format!(
        "{problem}\n{jobs} were imported before; correct the line, and continue with --from-line {next}"
    ))
}

/// The reply of the database was not seen.
fn unsure(first: u64, last: u64) -> String {
    format!(
        "Lines {first} to {last} are imported all or not at all; see the newest import in `worker audit`, and continue with --from-line \
         {first} or {}",
        last + 1
    )
}
