//! `kinds`: pauses of kinds.

use clap::Subcommand;
use diesel_jobs_core::Registry;
use diesel_jobs_core::storage::KindSettings;
use serde::Serialize;

use super::actor_args::{Named, Pausing};
use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

#[derive(Debug, Subcommand)]
pub(super) enum KindsAction {
    /// Print the kinds of this program, and those that are paused; the default
    List,
    /// Stop claims of jobs of a kind until `resume`; its running jobs continue, and jobs can still be enqueued
    Pause(Pausing),
    /// End the pause of a kind
    Resume(Named),
}

#[derive(Serialize)]
struct Listed {
    /// Whether this program has a job of this kind.
    known: bool,
    #[serde(flatten)]
    kind: KindSettings,
}

#[derive(Serialize)]
struct Changed {
    /// Whether it was different before.
    changed: bool,
    #[serde(flatten)]
    kind: KindSettings,
}

pub(super) async fn kinds(app: &App<'_>, action: &KindsAction) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    let (name, changed) = match action {
        KindsAction::List => {
            let listed = listed(operator.kinds().await?);
            output::print(app.json, &listed, || human(&listed))?;
            return Ok(Exit::Fine);
        }
        KindsAction::Pause(args) => {
            (&args.name, operator.pause_kind(&args.name, &args.who.name(app)?, args.reason.as_deref()).await?)
        }
        KindsAction::Resume(args) => (&args.name, operator.resume_kind(&args.name, &args.who.name(app)?).await?),
    };
    let known = operator.kinds().await?.into_iter().find(|kind| kind.name == *name);
    let kind = known.unwrap_or_else(|| KindSettings { name: name.clone(), paused: None });
    let answer = Changed { changed, kind };
    output::print(app.json, &answer, || {
        let already = if changed { "" } else { " already" };
        let paused = answer.kind.paused.as_ref().map_or_else(|| "not paused".to_owned(), ToString::to_string);
        output::printable(&format!("kind `{name}`{already}: {paused}")) + "\n"
    })?;
    warn_of_unknown([name.as_str()]);
    Ok(Exit::Fine)
}

/// Warns of kinds that this program does not have. Their names may be wrong.
pub(super) fn warn_of_unknown<'a>(names: impl IntoIterator<Item = &'a str>) {
    let registry = Registry::linked();
    for name in names.into_iter().filter(|name| registry.get(name).is_none()) {
        output::complain(&output::printable(&format!(
            "warning: this program has no job of kind `{name}`; `worker kinds` lists those that it has"
        )));
    }
}

fn listed(paused: Vec<KindSettings>) -> Vec<Listed> {
    let registry = Registry::linked();
    let mut listed: Vec<Listed> =
        paused.into_iter().map(|kind| Listed { known: registry.get(&kind.name).is_some(), kind }).collect();
    for name in registry.kinds() {
        if listed.iter().all(|listed| listed.kind.name != name) {
            listed.push(Listed { known: true, kind: KindSettings { name, paused: None } });
        }
    }
    listed.sort_by(|one, other| one.kind.name.cmp(&other.kind.name));
    listed
}

fn human(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "this program has no jobs, and no kind is paused\n".to_owned();
    }
    let mut table = Table::new(&[("KIND", Align::Left), ("IN THIS PROGRAM", Align::Left), ("PAUSED", Align::Left)]);
    for Listed { known, kind } in listed {
        let paused = kind.paused.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string);
        table.row([kind.name.clone(), if *known { "yes" } else { "no" }.to_owned(), paused]);
    }
    table.render()
}
