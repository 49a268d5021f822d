//! `retention`: how long ended jobs are kept, instead of what the workers were started with.

use clap::{Args, Subcommand};
use diesel_jobs_core::storage::{Keep, RetentionSetting};
use diesel_jobs_core::{JobState, Registry};
use serde::Serialize;

use super::actor_args::Who;
use super::app::App;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};
use super::{database, duration};

#[derive(Debug, Subcommand)]
pub(super) enum RetentionAction {
    /// Print the settings; the default
    List,
    /// Set how long jobs that end in a state from now on are kept
    ///
    /// A setting for one kind takes precedence over one for all kinds. Both take precedence over the `retain` of the
    /// code and the options of the worker. Jobs that have ended already keep their retention.
    Set(SetArgs),
    /// Remove such a setting, so that what the workers were started with applies again
    Unset(UnsetArgs),
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// completed, cancelled or discarded
    #[arg(value_parser = ended)]
    state: JobState,
    /// A time such as 7d or 12h; `none`: not at all; `forever`: until an operator deletes them
    #[arg(value_name = "TIME", value_parser = keep)]
    keep: Keep,
    /// Only jobs of this kind, under all names that it has in this program [default: all kinds that have no setting of
    /// their own]
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    who: Who,
}

#[derive(Debug, Args)]
pub(super) struct UnsetArgs {
    /// completed, cancelled or discarded
    #[arg(value_parser = ended)]
    state: JobState,
    /// Only the setting of this kind and its other names [default: the one for all kinds]
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Parses a state in which jobs have ended.
fn ended(text: &str) -> Result<JobState, String> {
    let state = text.parse().ok().filter(|state: &JobState| state.is_finished());
    state.ok_or_else(|| {
        format!("{text:?} is not a state in which jobs are kept; write completed, cancelled or discarded")
    })
}

fn keep(text: &str) -> Result<Keep, String> {
    match text.trim() {
        "forever" => Ok(Keep::Forever),
        "none" => Ok(Keep::Nothing),
        _ => match duration::parse(text) {
            Ok(time) if time.is_zero() => Ok(Keep::Nothing),
            Ok(time) => Ok(Keep::For(time)),
            Err(problem) => Err(format!("{problem}; or `none`, or `forever`")),
        },
    }
}

#[derive(Serialize)]
struct Changed {
    /// Whether it was different before.
    changed: bool,
    settings: Vec<RetentionSetting>,
}

pub(super) async fn retention(app: &App<'_>, action: &RetentionAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    let (changed, said) = match action {
        RetentionAction::List => {
            let settings = operator.retention().await?;
            output::print(app.json, &settings, || human(&settings))?;
            return Ok(Exit::Fine);
        }
        RetentionAction::Set(args) => {
            let who = args.who.name(app)?;
            let mut changed = false;
            for kind in names(args.kind.as_deref()) {
                let setting = RetentionSetting { kind, state: args.state, keep: args.keep };
                changed |= operator.set_retention(&setting, &who).await?;
            }
            let already = if changed { "" } else { " already" };
            (changed, format!("{} {} jobs are{already} kept {}", whose(&args.kind), args.state, how_long(args.keep)))
        }
        RetentionAction::Unset(args) => {
            let who = args.who.name(app)?;
            let mut changed = false;
            for kind in names(args.kind.as_deref()) {
                changed |= operator.unset_retention(kind.as_deref(), args.state, &who).await?;
            }
            let was = if changed { "is removed" } else { "did not exist" };
            (changed, format!("the setting for {} {} jobs {was}", whose(&args.kind), args.state))
        }
    };
    let answer = Changed { changed, settings: operator.retention().await? };
    output::print(app.json, &answer, || output::printable(&said) + "\n")?;
    Ok(Exit::Fine)
}

/// The kinds that have the setting: all names of the kind in this program. `None` stands for all kinds.
fn names(kind: Option<&str>) -> Vec<Option<String>> {
    let Some(kind) = kind else { return vec![None] };
    Registry::linked().names(kind).into_iter().map(|name| Some(name.to_owned())).collect()
}

fn whose(kind: &Option<String>) -> String {
    let names = names(kind.as_deref()).into_iter().flatten().map(|name| format!("`{name}`"));
    let names: Vec<String> = names.collect();
    if names.is_empty() { "all".to_owned() } else { names.join(" and ") }
}

fn how_long(keep: Keep) -> String {
    match keep {
        Keep::Nothing => "not at all".to_owned(),
        Keep::For(time) => format!("for {}", duration::human(time)),
        Keep::Forever => "for ever".to_owned(),
    }
}

fn human(settings: &[RetentionSetting]) -> String {
    if settings.is_empty() {
        return "no settings: ended jobs are kept as configured in the code and in the workers' options\n".to_owned();
    }
    let mut table = Table::new(&[("KIND", Align::Left), ("STATE", Align::Left), ("KEPT", Align::Left)]);
    for RetentionSetting { kind, state, keep } in settings {
        table.row([kind.clone().unwrap_or_else(|| "(all others)".to_owned()), state.to_string(), how_long(*keep)]);
    }
    table.render()
}
