//! The limits: how many jobs each holds back, what operators have set, which keys are full, and which jobs have their slots. Also the
//! halted sequences.

use std::collections::BTreeMap;

use askama::Template;
use diesel_jobs_core::storage::{
    AfterKey, Count, HaltedSequence, LimitKey, LimitSetting, LimitStats, MOST_AHEAD, MOST_LIMITS,
};

use super::{Visit, render};
use crate::failure::{Failure, Page};
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// So many keys stand on a page.
const SHOWN: usize = 50;
/// So many halted sequences stand on a page.
const HALTED: usize = 50;

/// A limit, over all its keys.
struct Limit {
    name: String,
    held: Count,
    slots: Count,
    /// What an operator has set.
    set: Option<LimitSetting>,
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
}

/// How many jobs wait behind a discarded one.
fn waiting(halted: &HaltedSequence) -> String {
    if halted.waiting > MOST_AHEAD { format!("{MOST_AHEAD}+") } else { halted.waiting.to_string() }
}

/// A key as people write it. It is stored as a list of values.
fn key(stored: &str) -> String {
    match serde_json::from_str::<Vec<serde_json::Value>>(stored) {
        Ok(values) if values.is_empty() => "all jobs".to_owned(),
        Ok(values) => {
            let text = |value: &serde_json::Value| match value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            values.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        // The hash of a long key.
        Err(_) => stored.to_owned(),
    }
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
    for LimitStats { name, held, slots } in stats {
        limits.insert(name.clone(), Limit { name, held, slots, set: None });
    }
    for setting in operator.limit_settings().await? {
        let name = setting.name.clone();
        let limit = limits.entry(name.clone()).or_insert(Limit { name, held: none, slots: none, set: None });
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
    render(&LimitsPage { shell, limits, is_cut, halted, more_halted, keys, first, next })
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn keys_are_written_as_their_values() {
        let shown = [r#"["ada",7,null]"#, "[]", "sha256:ab", r#"["a, b"]"#].map(key);
        assert_eq!(shown, ["ada, 7, null", "all jobs", "sha256:ab", "a, b"]);
    }
}
