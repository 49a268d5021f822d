//! `kinds`: pauses of kinds.

use clap::Subcommand;
use diesel_jobs_core::__private::nearest;
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
    ///
    /// If the kind has aliases in this program, jobs that are stored under another of its names pause, too.
    Pause(Pausing),
    /// End the pause of a kind, and of its other names
    Resume(Named),
}

#[derive(Serialize)]
struct Listed {
    /// Whether this program has a job of this kind.
    known: bool,
    /// The present name of the kind, if this is an alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    alias_of: Option<String>,
    #[serde(flatten)]
    kind: KindSettings,
}

#[derive(Serialize)]
struct Changed {
    /// Whether it was different before.
    changed: bool,
    #[serde(flatten)]
    kind: KindSettings,
    /// The other names under which jobs of the kind are stored. They were paused or resumed with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_names: Vec<String>,
}

pub(super) async fn kinds(app: &App<'_>, action: &KindsAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &database.operator;
    let (name, pausing, who) = match action {
        KindsAction::List => {
            let listed = listed(operator.kinds().await?);
            output::print(app.json, &listed, || human(&listed))?;
            return Ok(Exit::Fine);
        }
        KindsAction::Pause(args) => (&args.name, Some(args.reason.as_deref()), &args.who),
        KindsAction::Resume(args) => (&args.name, None, &args.who),
    };
    let (registry, who) = (Registry::linked(), who.name(app)?);
    let mut names = registry.names(name);
    // The given name comes first, and the others follow.
    names.sort_by_key(|other| *other != name.as_str());
    let mut changed = false;
    for one in &names {
        changed |= match pausing {
            Some(reason) => operator.pause_kind(one, &who, reason).await?,
            None => operator.resume_kind(one, &who).await?,
        };
    }
    let known = operator.kinds().await?.into_iter().find(|kind| kind.name == *name);
    let kind = known.unwrap_or_else(|| KindSettings { name: name.clone(), paused: None });
    let other_names = names.iter().skip(1).map(|other| (*other).to_owned()).collect();
    let answer = Changed { changed, kind, other_names };
    output::print(app.json, &answer, || {
        let others: String = answer.other_names.iter().map(|other| format!(" and its other name `{other}`")).collect();
        let already = if changed { "" } else { " already" };
        let paused = answer.kind.paused.as_ref().map_or_else(|| "not paused".to_owned(), ToString::to_string);
        output::printable(&format!("kind `{name}`{others}{already}: {paused}")) + "\n"
    })?;
    warn_of_unknown([name.as_str()]);
    Ok(Exit::Fine)
}

/// Warns of kinds that this program does not have. Their names may be wrong.
pub(super) fn warn_of_unknown<'a>(names: impl IntoIterator<Item = &'a str>) {
    let registry = Registry::linked();
    for name in names.into_iter().filter(|name| registry.get(name).is_none()) {
        let kinds = registry.kinds();
        let hint = match nearest(name, kinds.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`worker kinds` lists those that it has".to_owned(),
        };
        output::complain(&output::printable(&format!("warning: this program has no job of kind `{name}`; {hint}")));
    }
}

fn listed(paused: Vec<KindSettings>) -> Vec<Listed> {
    let registry = Registry::linked();
    let mut kinds = paused;
    for name in registry.kinds() {
        if kinds.iter().all(|kind| kind.name != name) {
            kinds.push(KindSettings { name, paused: None });
        }
    }
    let listed = |kind: KindSettings| {
        let present = registry.present_name(&kind.name);
        let alias_of = (present != kind.name).then(|| present.to_owned());
        Listed { known: registry.get(&kind.name).is_some(), alias_of, kind }
    };
    let mut listed: Vec<Listed> = kinds.into_iter().map(listed).collect();
    listed.sort_by(|one, other| one.kind.name.cmp(&other.kind.name));
    listed
}

fn human(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "this program has no jobs, and no kind is paused\n".to_owned();
    }
    let mut table = Table::new(&[("KIND", Align::Left), ("IN THIS PROGRAM", Align::Left), ("PAUSED", Align::Left)]);
    for Listed { known, alias_of, kind } in listed {
        let paused = kind.paused.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string);
        let here = match (alias_of, known) {
            (Some(present), _) => format!("alias of {present}"),
            (None, true) => "yes".to_owned(),
            (None, false) => "no".to_owned(),
        };
        table.row([kind.name.clone(), here, paused]);
    }
    table.render()
}
