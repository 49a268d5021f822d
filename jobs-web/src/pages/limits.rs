//! The limits: how many jobs wait for each, what operators have set, which keys are full, and which jobs have their
//! permits. Also the rates whose tokens jobs wait for, and the halted sequences.

use std::collections::BTreeMap;

use askama::Template;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{
    AfterKey, Count, HaltedSequence, LimitKey, LimitSetting, LimitStats, MOST_AHEAD, MOST_LIMITS, RateKey, key_text,
};

use super::{Visit, render};
use crate::failure::{Failure, Page};
use crate::format::{self, Amount};
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// This many keys are on a page.
const SHOWN: usize = 50;
/// This many halted sequences are on a page.
const HALTED: usize = 50;

/// A limit, over all its keys.
struct Limit {
    name: String,
    held: Count,
    permits: Count,
    /// What an operator has set.
    set: Option<LimitSetting>,
    /// The number of a sequence cannot be set.
    is_sequence: bool,
}

#[derive(Template)]
#[template(path = "limits.html")]
struct LimitsPage {
    shell: Shell,
    limits: Vec<Limit>,
    /// Whether there may be limits that are not listed.
    is_cut: bool,
    halted: Vec<HaltedSequence>,
    /// Whether there are more halted sequences.
    more_halted: bool,
    keys: Vec<LimitKey>,
    /// The address of the first page, if this is another one.
    first: Option<String>,
    next: Option<String>,
    rates: Vec<RateKey>,
    /// Whether there are more such keys.
    more_rates: bool,
}

/// When the next token comes.
fn next_token(rate: &RateKey, now: &DateTime<Utc>) -> String {
    let at = rate.next_token.filter(|at| at > now);
    at.map_or_else(|| "now".to_owned(), |at| format::relative(at, *now))
}

/// How many jobs wait behind a discarded one.
fn waiting(halted: &HaltedSequence) -> Amount {
    format::up_to(halted.waiting, MOST_AHEAD)
}

/// Reads the key after which the page begins.
fn after(pairs: &[(String, String)]) -> Result<Option<AfterKey>, Failure> {
    let (mut name, mut key) = (String::new(), String::new());
    for (field, value) in pairs {
        match field.as_str() {
            "after" => name.clone_from(value),
            "key" => key.clone_from(value),
            other => {
                let text = format!("There is no filter {other:?}. Write ?after=, with the name of a limit, and &key=.");
                return Err(Failure::Malformed(text));
            }
        }
    }
    Ok((!name.is_empty()).then_some((name, key)))
}

pub(crate) async fn limits(visit: Visit) -> Page {
    let after = after(&visit.pairs())?;
    let shell = visit.shell(Place::Limits, "Limits").await?.live("/limits", &visit.query);
    let operator = visit.site.operator();
    let first = after.is_some().then(|| shell.link("/limits"));
    let stats = operator.limits().await?;
    let is_cut = stats.len() >= MOST_LIMITS;
    // If the list is cut, the others may have jobs, too.
    let none = Count { jobs: 0, is_exact: !is_cut };
    let mut limits: BTreeMap<String, Limit> = BTreeMap::new();
    for LimitStats { name, held, permits, is_sequence } in stats {
        limits.insert(name.clone(), Limit { name, held, permits, set: None, is_sequence });
    }
    for setting in operator.limit_settings().await? {
        let name = setting.name.clone();
        let limit = limits.entry(name.clone()).or_insert(Limit {
            name,
            held: none,
            permits: none,
            set: None,
            is_sequence: false,
        });
        limit.set = Some(setting);
    }
    let limits = limits.into_values().collect();
    let mut halted = operator.halted_sequences(HALTED + 1).await?;
    let more_halted = halted.len() > HALTED;
    halted.truncate(HALTED);
    let mut keys = operator.limit_keys(after, SHOWN + 1).await?;
    let has_more = keys.len() > SHOWN;
    keys.truncate(SHOWN);
    let next = keys.last().filter(|_| has_more).map(|last| {
        let pairs = [("after", last.name.as_str()), ("key", last.key.as_str())];
        shell.base.with("/limits", pairs)
    });
    let mut rates = operator.rate_keys(None, SHOWN + 1).await?;
    let more_rates = rates.len() > SHOWN;
    rates.truncate(SHOWN);
    render(&LimitsPage { shell, limits, is_cut, halted, more_halted, keys, first, next, rates, more_rates })
}
