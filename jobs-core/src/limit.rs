//! Rules: when a job may start. A job has a list of them. A limit says how many jobs with the same key may run at once, a sequence that they run
//! one at a time in the order of their ids, and a rate how many of them start in a period.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

mod bucket;
mod flow;
mod job_rule;
mod key;
mod kind_rule;
mod on_discard;
mod on_full;
mod own_rule;
mod problem;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use flow::StoredRules;
pub use job_rule::JobRule;
pub use key::{is_key, key_text, keyed};
pub use kind_rule::KindRule;
pub use on_discard::OnDiscard;
pub use on_full::OnFull;
pub use own_rule::{Limit, OwnRule, Rate, Sequence};
pub use problem::LimitProblem;
pub use rule::{MOST_AT_ONCE, Rule, period_text};
pub use rules::{MOST_RULES, Rules};

/// The most bytes of a key. A longer key is replaced by its hash.
const LONGEST_KEY: usize = 200;

/// The values of these arguments.
fn values_of(names: &[&str], args: &str) -> Result<Vec<Value>, LimitProblem> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let args: Map<String, Value> = serde_json::from_str(args).map_err(|_| LimitProblem::NoObject)?;
    let value = |name: &&str| args.get(*name).cloned().ok_or_else(|| LimitProblem::Missing((*name).to_owned()));
    names.iter().map(value).collect()
}

fn value_of(value: impl Serialize) -> Result<Value, LimitProblem> {
    serde_json::to_value(value).map_err(|error| LimitProblem::Unusable(error.to_string()))
}

/// The key of these values: the list of them as JSON, or the hash of this text if it is long. The SQL function `jobs.flow` makes the
/// same key.
pub(crate) fn key(values: &[Value]) -> Result<String, LimitProblem> {
    if let Some(unusable) = values.iter().find(|value| !is_usable(value)) {
        let mut text = unusable.to_string();
        text.truncate(text.floor_char_boundary(100));
        return Err(LimitProblem::Unusable(text));
    }
    let text = serde_json::to_string(values).map_err(|error| LimitProblem::Unusable(error.to_string()))?;
    if text.len() <= LONGEST_KEY {
        return Ok(text);
    }
    Ok(hashed(&text))
}

/// The hash that replaces this text.
pub(crate) fn hashed(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// A fraction has several texts in JSON, and so has an object. Both could make different keys in Rust and in SQL.
fn is_usable(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        // PostgreSQL stores no text with a NUL character.
        Value::String(text) => !text.contains('\0'),
        Value::Number(number) => !number.is_f64(),
        Value::Array(_) | Value::Object(_) => false,
    }
}
