//! Rules: when a job may start. A job has a list of them. A limit says how many jobs with the same key may run at once,
//! a sequence that they run one at a time in the order of their ids, and a rate how many of them start in a period.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::canonical;
use crate::finite::json_text;

mod bucket;
mod job_rule;
mod key;
mod kind_rule;
mod list;
mod on_discard;
mod on_full;
mod own_rule;
mod problem;
mod rule;
mod stored;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use job_rule::JobRule;
pub use key::{is_key, key_text, keyed};
pub use kind_rule::KindRule;
pub(crate) use list::is_stored_key;
pub use list::{MOST_RULES, Rules};
pub use on_discard::OnDiscard;
pub use on_full::OnFull;
pub use own_rule::{Limit, OwnRule, Rate, Sequence};
pub use problem::RuleProblem;
pub use rule::{MOST_AT_ONCE, Rule, period_text};
pub use stored::StoredRules;

/// The most bytes of a key. A longer key is replaced by its hash.
const LONGEST_KEY: usize = 200;

/// The key that these arguments make.
pub(crate) fn key_of(names: &[&str], args: &str) -> Result<String, RuleProblem> {
    if names.is_empty() {
        return Ok(key(&[]));
    }
    Ok(key(&canonical::fields(args, names)?))
}

/// The canonical text of a value. Not by way of `serde_json::Value`, which keeps no number beyond 64 bits.
fn value_of(value: impl Serialize) -> Result<String, RuleProblem> {
    let json = json_text(&value).map_err(|error| RuleProblem::Unserializable(error.to_string()))?;
    Ok(canonical::canonical(&json)?)
}

/// The key of values with these canonical texts: their list, or the hash of its text if that is long.
fn key(values: &[String]) -> String {
    let text = format!("[{}]", values.join(","));
    if text.len() <= LONGEST_KEY { text } else { hashed(&text) }
}

/// The hash that replaces this text.
pub(crate) fn hashed(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}
