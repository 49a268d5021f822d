//! `limits`: the limits with what operators have set for them, and the rates for whose tokens jobs wait.

mod rates;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use diesel_jobs_core::storage::{Count, LimitSetting, MOST_LIMITS, Operator, RateKey, StorageResult};
use diesel_jobs_core::{KindRule, MOST_AT_ONCE, Registration, Registry};
use serde::Serialize;

use super::actor_args::{Named, Who};
use super::app::App;
use super::database;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};

#[derive(Debug, Subcommand)]
pub(super) enum LimitsAction {
    /// Print the limits: those of this program, of waiting and running jobs, and those that are set; also the rates
    /// for whose tokens jobs wait; the default
    List,
    /// Set how many jobs of each key of a limit run at once, instead of what the code says
    ///
    /// It applies to all jobs, including those that wait already, until `reset`. Running jobs are not stopped.
    Set(SetArgs),
    /// Go back to the number in the code
    Reset(Named),
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The name of the limit: that of the kind, if the job gives no other
    name: String,
    /// From 0 to 10000; with 0 none starts
    #[arg(value_name = "N", value_parser = most)]
    most: u32,
    /// The reason, in one line; commands and pages show it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    who: Who,
}

fn most(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number <= MOST_AT_ONCE);
    number.ok_or_else(|| format!("{text:?} is not a number of jobs from 0 to {MOST_AT_ONCE}"))
}

/// A limit, over all its keys.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    /// What the kinds of this program declare.
    declared: BTreeSet<u32>,
    /// What an operator has set instead.
    set: Option<LimitSetting>,
    /// Jobs that only this limit holds back.
    held: Count,
    /// Its jobs that are available or running.
    permits: Count,
}

#[derive(Serialize)]
struct All {
    limits: Vec<Listed>,
    /// By name and key, at most [`MOST_LIMITS`].
    rates: Vec<RateKey>,
}

#[derive(Serialize)]
struct Changed<'a> {
    /// Whether it was different before.
    changed: bool,
    name: &'a str,
    /// What is set now.
    set: Option<LimitSetting>,
}

pub(super) async fn limits(app: &App<'_>, action: &LimitsAction) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    database.storage.check_schema().await?;
    let operator = &*database.operator;
    let (name, changed) = match action {
        LimitsAction::List => {
            let all = All { limits: listed(operator).await?, rates: operator.rate_keys(None, MOST_LIMITS).await? };
            output::print(app.json, &all, || human(&all.limits) + &rates::human(&all.rates))?;
            return Ok(Exit::Fine);
        }
        LimitsAction::Set(SetArgs { name, most, reason, who }) => {
            refuse_others(name)?;
            // Enqueues from SQL and an earlier version of the program may use a limit of the kind's name.
            if !is_known(operator, name).await? {
                refuse_kind(name)?;
            }
            (name, operator.set_limit(name, *most, &who.name(app)?, reason.as_deref()).await?)
        }
        LimitsAction::Reset(args) => {
            let changed = operator.reset_limit(&args.name, &args.who.name(app)?).await?;
            // An earlier version of the program may have had a limit of this name, for which a number is set.
            if !changed {
                refuse_others(&args.name)?;
                refuse_kind(&args.name)?;
            }
            (&args.name, changed)
        }
    };
    let set = operator.limit_settings().await?.into_iter().find(|setting| setting.name == *name);
    let answer = Changed { changed, name, set };
    output::print(app.json, &answer, || {
        let already = if changed { "" } else { " already" };
        let set = answer.set.as_ref().map_or_else(|| "as the code says".to_owned(), ToString::to_string);
        output::printable(&format!("limit `{name}`{already}: {set}")) + "\n"
    })?;
    if !is_known(operator, name).await? {
        output::complain(&output::printable(&format!(
            "warning: this program has no limit `{name}`, and no waiting or running job has it; `worker limits` lists those that are known"
        )));
    }
    Ok(Exit::Fine)
}

/// Fails if the kinds of this program say that the name is that of a sequence or of a rate. The database knows only
/// those with jobs.
fn refuse_others(name: &str) -> Result<(), CliError> {
    let problem = refusal(name, Registry::linked().iter().flat_map(|kind| kind.options.rules));
    problem.map_or(Ok(()), |problem| Err(CliError::usage(output::printable(&problem))))
}

/// Fails if the name is that of a kind whose limit has another name.
fn refuse_kind(name: &str) -> Result<(), CliError> {
    of_kind(name, &Registry::linked()).map_or(Ok(()), |problem| Err(CliError::usage(output::printable(&problem))))
}

/// Says which limits a kind has, if the name is that of the kind and of no limit. A renamed kind keeps the oldest name
/// for its limit, and a kind may give it a name of its own.
fn of_kind(name: &str, registry: &Registry) -> Option<String> {
    let limits =
        |kind: &Registration| kind.options.rules.iter().filter(|rule| rule.rule.most().is_some()).map(|rule| rule.name);
    if registry.iter().any(|kind| limits(kind).any(|limit| limit == name)) {
        return None;
    }
    let of_kind: BTreeSet<&str> = registry.get(name).into_iter().flat_map(limits).collect();
    (!of_kind.is_empty()).then(|| {
        let names: Vec<_> = of_kind.iter().map(|limit| format!("`{limit}`")).collect();
        format!("`{name}` is a kind, and its limit has another name: {}; use this name", names.join(", "))
    })
}

fn refusal<'a>(name: &str, rules: impl Iterator<Item = &'a KindRule>) -> Option<String> {
    let of_name: Vec<&KindRule> = rules.filter(|rule| rule.name == name).collect();
    if of_name.iter().any(|rule| rule.rule.on_discard().is_some()) {
        return Some(format!(
            "`{name}` is a sequence: it runs one job of each key at a time, and this number cannot be changed"
        ));
    }
    // A rate may have the name of a limit.
    (!of_name.is_empty() && of_name.iter().all(|rule| rule.rule.is_rate())).then(|| {
        format!(
            "`{name}` is a rate: how many jobs may start per interval is set in the code, and an operator cannot change it"
        )
    })
}

impl Listed {
    /// Only the setting has this name.
    fn is_unknown(&self) -> bool {
        self.declared.is_empty() && self.held.jobs == 0 && self.permits.jobs == 0
    }
}

/// Whether this program has a limit of this name, or a job of it waits or runs.
async fn is_known(operator: &dyn Operator, name: &str) -> StorageResult<bool> {
    Ok(listed(operator).await?.iter().any(|limit| limit.name == name && !limit.is_unknown()))
}

async fn listed(operator: &dyn Operator) -> StorageResult<Vec<Listed>> {
    let mut listed: BTreeMap<String, Listed> = BTreeMap::new();
    let with_jobs = operator.limits().await?;
    // If the list is cut, the others may have jobs, too.
    let none = Count { jobs: 0, is_exact: with_jobs.len() < MOST_LIMITS };
    let new = |name: &str| {
        let name = name.to_owned();
        Listed { name, declared: BTreeSet::new(), set: None, held: none, permits: none }
    };
    for limit in with_jobs {
        let known = listed.entry(limit.name.clone()).or_insert_with(|| new(&limit.name));
        (known.held, known.permits) = (limit.held, limit.permits);
    }
    for setting in operator.limit_settings().await? {
        let limit = listed.entry(setting.name.clone()).or_insert_with(|| new(&setting.name));
        limit.set = Some(setting);
    }
    let registry = Registry::linked();
    let declared = registry.iter().flat_map(|kind| kind.options.rules);
    for (name, most) in declared.filter_map(|rule| Some((rule.name, rule.rule.most()?))) {
        listed.entry(name.to_owned()).or_insert_with(|| new(name)).declared.insert(most);
    }
    Ok(listed.into_values().collect())
}

fn human(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "this program declares no limits, no waiting or running job has one, and none is set\n".to_owned();
    }
    let titles = [
        ("LIMIT", Align::Left),
        ("IN THIS PROGRAM", Align::Right),
        ("HELD", Align::Right),
        ("PERMITS TAKEN", Align::Right),
        ("OPERATOR", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for Listed { name, declared, set, held, permits } in listed {
        let declared: Vec<String> = declared.iter().map(u32::to_string).collect();
        table.row([
            if name.is_empty() { "several limits".to_owned() } else { name.clone() },
            declared.join(", "),
            held.to_string(),
            permits.to_string(),
            set.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use diesel_jobs_core::OnDiscard;

    use super::*;

    #[test]
    fn only_limits_can_be_set() {
        let rated = |name| KindRule::rate(name, 100, Duration::from_secs(60));
        let declared = [
            KindRule::concurrency("stripe", 5),
            KindRule::sequence("orders", OnDiscard::Halt),
            rated("api"),
            rated("both"),
            KindRule::concurrency("both", 2),
        ];
        let refused = |name: &str| refusal(name, declared.iter());
        assert!(refused("orders").unwrap().contains("`orders` is a sequence"));
        assert!(refused("api").unwrap().contains("`api` is a rate"));
        assert_eq!([refused("stripe"), refused("both"), refused("unknown")], [None, None, None]);
    }
}
