//! `schedules`: what operators see of schedules, and change.

pub(super) mod args;
mod backfill;
mod ticks;
mod view;

use diesel_jobs_core::shell::argument;
use diesel_jobs_core::storage::{NewSchedule, ScheduleChange, ScheduleRecord, Scheduled, ScheduledJob};
use diesel_jobs_core::{JobOptions, Registry, RunAt};
use diesel_jobs_storage::Database;
use serde::Serialize;

use self::args::{AddArgs, ChangeArgs, SchedulesAction};
use super::actor_args::Named;
use super::app::App;
use super::exit::{CliError, Exit};
use super::{database, enqueue, output};

#[derive(Serialize)]
struct Answer {
    result: Scheduled,
    schedule: Option<view::Shown>,
}

pub(super) async fn schedules(app: &App<'_>, action: &SchedulesAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    match action {
        SchedulesAction::List => {
            let (records, now) = operator.list_schedules().await?;
            let shown: Vec<view::Shown> = records.into_iter().map(|record| view::Shown::new(record, now)).collect();
            output::print(app.json, &shown, || view::list(&shown))?;
            Ok(Exit::Fine)
        }
        SchedulesAction::Show { name } => {
            let shown = view::Shown::new(find(&database, name).await?, operator.list_schedules().await?.1);
            output::print(app.json, &shown, || view::show(&shown))?;
            Ok(Exit::Fine)
        }
        SchedulesAction::Add(args) => add(app, &database, args).await,
        SchedulesAction::Change(args) => change(app, &database, args).await,
        SchedulesAction::Pause(args) => {
            let actor = args.who.name(app)?;
            let result = operator.pause_schedule(&args.name, &actor, args.reason.as_deref()).await?;
            say(app, &database, &args.name, result, "it does not tick").await
        }
        SchedulesAction::Resume(Named { name, who }) => {
            let result = operator.resume_schedule(name, &who.name(app)?).await?;
            say(app, &database, name, result, "it ticks").await
        }
        SchedulesAction::Trigger(args) => trigger(app, &database, args).await,
        SchedulesAction::Backfill(args) => backfill::backfill(app, &database, args).await,
        SchedulesAction::Remove(args) => remove(app, &database, args).await,
        SchedulesAction::Reset(Named { name, who }) => {
            let result = operator.reset_schedule(name, &who.name(app)?).await?;
            say(app, &database, name, result, "it is as the code declares it").await
        }
    }
}

async fn add(app: &App<'_>, database: &Database, args: &AddArgs) -> Result<Exit, CliError> {
    let new = NewSchedule {
        name: args.name.clone(),
        kind: args.kind.clone(),
        // The command has one of them.
        expression: args.cron.clone().or_else(|| args.every.clone()).unwrap_or_default(),
        timezone: args.timezone.clone(),
        catch_up: args.catch_up,
        job: ScheduledJob {
            args: args.args.clone(),
            queue: args.queue.clone(),
            priority: args.priority,
            max_attempts: args.max_attempts,
        },
    };
    let registry = Registry::linked();
    let registration = enqueue::known(&args.kind, &registry)?;
    new.validate(&registration.options).map_err(|problem| CliError::usage(problem.to_string()))?;
    let fits = registration.job_by_hand(args.args.as_deref().unwrap_or("{}"), |_| ());
    fits.map_err(|problem| {
        let text = format!("--args: no job of kind `{}` can be made of this: {problem}", args.kind);
        CliError::usage(output::printable(&text))
    })?;
    let result = database.operator.add_schedule(&new, &args.who.name(app)?).await?;
    say(app, database, &args.name, result, "it ticks from now on").await
}

async fn change(app: &App<'_>, database: &Database, args: &ChangeArgs) -> Result<Exit, CliError> {
    let expression = args.cron.clone().or_else(|| args.every.clone());
    let change = ScheduleChange { expression, timezone: args.timezone.clone(), catch_up: args.catch_up };
    let result = database.operator.change_schedule(&args.name, &change, &args.who.name(app)?).await?;
    say(
        app,
        database,
        &args.name,
        result,
        "it is changed; `worker schedules reset` goes back to what the code declares",
    )
    .await
}

async fn trigger(app: &App<'_>, database: &Database, Named { name, who }: &Named) -> Result<Exit, CliError> {
    let record = find(database, name).await?;
    let job = record.job.at(&record.kind, &options(&record.kind), RunAt::Now);
    warn_if_unknown(&record.kind);
    let result = database.operator.enqueue_for_schedule(name, &[job], "trigger", &who.name(app)?).await?;
    say(app, database, name, result, "one job is enqueued").await
}

async fn remove(app: &App<'_>, database: &Database, Named { name, who }: &Named) -> Result<Exit, CliError> {
    let actor = who.name(app)?;
    match database.operator.remove_schedule(name, &actor).await? {
        // Workers would store it again.
        Scheduled::Declared => {
            let result = database.operator.pause_schedule(name, &actor, Some("removed by an operator")).await?;
            let said = "code declares it, so workers would add it again: it is paused instead";
            say(app, database, name, result, said).await
        }
        result => say(app, database, name, result, "it is removed").await,
    }
}

/// The options of the kind, if this program knows it, else the defaults.
fn options(kind: &str) -> JobOptions {
    Registry::linked().get(kind).map_or_else(JobOptions::new, |registration| registration.options)
}

fn warn_if_unknown(kind: &str) {
    if Registry::linked().get(kind).is_none() {
        output::complain(&output::printable(&format!(
            "warning: this program has no job of kind `{kind}`; only a worker that has one enqueues and runs its jobs"
        )));
    }
}

async fn find(database: &Database, name: &str) -> Result<ScheduleRecord, CliError> {
    let (records, _) = database.operator.list_schedules().await?;
    records.into_iter().find(|record| record.name == name).ok_or_else(|| not_found(name))
}

fn not_found(name: &str) -> CliError {
    CliError::failed(format!("there is no schedule {name:?}; `worker schedules` lists them"))
}

/// Prints what the command did to the schedule.
async fn say(app: &App<'_>, database: &Database, name: &str, result: Scheduled, done: &str) -> Result<Exit, CliError> {
    let text = match result {
        Scheduled::Done => done,
        Scheduled::Unchanged => "it was so already; nothing was changed",
        Scheduled::NotFound => return Err(not_found(name)),
        Scheduled::Exists => {
            // It may have been removed since.
            let exists = find(database, name).await?.exists_text();
            return Err(CliError::failed(output::printable(&format!(
                "{exists}; nothing was changed. `worker schedules change {}` changes when it ticks; or add the new one under another name",
                argument(name)
            ))));
        }
        Scheduled::Newer => {
            return Err(CliError::failed(format!(
                "schedule {name:?} uses a feature of a later version of this program; use that version"
            )));
        }
        Scheduled::Declared => {
            return Err(CliError::failed(format!("code declares the schedule {name:?}, so it can only be paused")));
        }
        unknown => {
            return Err(CliError::failed(format!(
                "schedule {name:?}: the database's answer is {unknown:?}; look at it with `worker schedules`"
            )));
        }
    };
    let (records, now) = database.operator.list_schedules().await?;
    let schedule = records.into_iter().find(|record| record.name == name).map(|record| view::Shown::new(record, now));
    let answer = Answer { result, schedule };
    output::print(app.json, &answer, || output::printable(&format!("schedule `{name}`: {text}")) + "\n")?;
    Ok(Exit::Fine)
}
