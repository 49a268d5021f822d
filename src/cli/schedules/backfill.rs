//! `schedules backfill`: enqueues the jobs of all ticks of a time, in one transaction.

use chrono::{DateTime, Utc};
use diesel_jobs_core::{NewJob, RunAt};
use diesel_jobs_storage::Database;
use serde::Serialize;

use super::super::app::App;
use super::super::confirm::confirm;
use super::super::exit::{CliError, Exit};
use super::super::output;
use super::args::BackfillArgs;
use super::{find, options, say, ticks, warn_if_unknown};

/// The most ticks of one backfill.
const MOST: usize = 10_000;

#[derive(Serialize)]
struct Preview {
    jobs: usize,
    first: Option<DateTime<Utc>>,
    last: Option<DateTime<Utc>>,
}

pub(super) async fn backfill(app: &App<'_>, database: &Database, args: &BackfillArgs) -> Result<Exit, CliError> {
    let record = find(database, &args.name).await?;
    let now = database.operator.list_schedules().await?.1;
    let to = args.to.unwrap_or(now);
    if to > now {
        return Err(CliError::usage("--to is later than now; the schedule itself enqueues its later ticks"));
    }
    if args.from > to {
        return Err(CliError::usage("--from is later than --to"));
    }
    let due = ticks::between(&record.expression, &record.timezone, args.from, to, MOST)
        .map_err(|problem| CliError::failed(format!("schedule `{}`: {problem}", record.name)))?;
    if due.len() > MOST {
        return Err(CliError::failed(format!(
            "there are more than {MOST} ticks between {} and {}; enqueue them in parts",
            output::time(args.from),
            output::time(to)
        )));
    }
    let preview = Preview { jobs: due.len(), first: due.first().copied(), last: due.last().copied() };
    let text = said(&preview, &record.kind);
    if args.dry_run || due.is_empty() {
        output::print(app.json, &preview, || text + "\n")?;
        return Ok(Exit::Fine);
    }
    warn_if_unknown(&record.kind);
    confirm(&text, &record.name, args.yes)?;
    let options = options(&record.kind);
    let job = |at: &DateTime<Utc>| record.job.at(&record.kind, &options, RunAt::Exactly(*at));
    let jobs: Vec<NewJob> = due.iter().map(job).collect();
    let result = database.operator.enqueue_for_schedule(&record.name, &jobs, "backfill", &args.who.name(app)?).await?;
    say(app, database, &record.name, result, &format!("{} enqueued", output::count(jobs.len() as i64, "job"))).await
}

fn said(preview: &Preview, kind: &str) -> String {
    let Preview { jobs, first: Some(first), last: Some(last) } = preview else {
        return "there is no tick in this time: nothing to enqueue".to_owned();
    };
    let jobs = output::count(*jobs as i64, "job");
    let text =
        format!("{jobs} of kind `{kind}`, for the ticks from {} to {}", output::time(*first), output::time(*last));
    output::printable(&text)
}
