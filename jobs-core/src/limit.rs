//! Limits: how many jobs with the same key may run at once. A sequence is a limit of one, whose jobs run in the order of their ids. A rate
//! limits how many jobs start in a period.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

mod fair;
mod job_limit;
mod key;
mod on_full;
mod problem;
mod rate;
mod sequence;
mod several;

pub use job_limit::JobLimit;
pub use key::{is_key, key_text, keyed};
pub use on_full::OnFull;
pub use problem::LimitProblem;
pub use rate::{Bucket, JobRate, Rate, RateSpec};
pub use sequence::{OnDiscard, Sequence};
pub use several::MOST_LIMITS_OF_JOB;

/// The largest number of jobs that a limit may allow at once.
pub const MOST_AT_ONCE: u32 = 10_000;
/// The most bytes of a key. A longer key is replaced by its hash.
const LONGEST_KEY: usize = 200;

/// The limit of all jobs of a kind. `concurrency(limit = 5, by(account_id))` in `#[job]` makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Concurrency {
    /// The name. Kinds with the same name share the limit.
    pub name: &'static str,
    /// How many jobs with the same key may run at once.
    pub most: u32,
    /// The arguments whose values are the key. If there are none, all jobs have the same key.
    pub by: &'static [&'static str],
    /// Whether it is a sequence, and what happens in it when a job is discarded.
    pub sequence: Option<OnDiscard>,
    /// If it is a rate, at most `most` jobs start in its period.
    pub rate: Option<RateSpec>,
    /// What happens to a job that finds the limit full.
    pub on_full: OnFull,
    /// The arguments whose values are the tenant of a job: the tenants of a key take turns. Without arguments, there are no tenants.
    pub fair: &'static [&'static str],
}

impl Concurrency {
    /// At most this many jobs at once.
    pub const fn new(name: &'static str, most: u32) -> Self {
        Self { name, most, by: &[], sequence: None, rate: None, on_full: OnFull::Wait, fair: &[] }
    }

    /// A sequence: one job at a time, in the order of their ids. `sequence(by(order_id))` in `#[job]` makes one.
    pub const fn in_sequence(name: &'static str, on_discard: OnDiscard) -> Self {
        Self { name, most: 1, by: &[], sequence: Some(on_discard), rate: None, on_full: OnFull::Wait, fair: &[] }
    }

    /// Counts the jobs separately for each value of these arguments. Default: all jobs have one key.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// The limit of a job with these arguments, as JSON text.
    pub(crate) fn of(self, args: &str) -> Result<JobLimit, LimitProblem> {
        let limit = JobLimit::new(self.name, self.most, &values_of(self.by, args)?, self.sequence, self.rate)?;
        let limit = if self.fair.is_empty() { limit } else { limit.of_tenant(&values_of(self.fair, args)?)? };
        limit.with_on_full(self.on_full)
    }

    /// Like [`of`](Self::of). If arguments that `by` names are missing, the key is the empty list. `None` if the limit itself is invalid: then the
    /// attribute has reported it.
    pub(crate) fn of_any(self, args: &str) -> Option<JobLimit> {
        let without = |_| {
            let limit = JobLimit::new(self.name, self.most, &[], self.sequence, self.rate)?;
            let limit = if self.fair.is_empty() { limit } else { limit.of_tenant(&[])? };
            limit.with_on_full(self.on_full)
        };
        self.of(args).or_else(without).ok()
    }
}

/// The values of these arguments.
fn values_of(names: &[&str], args: &str) -> Result<Vec<Value>, LimitProblem> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let args: Map<String, Value> = serde_json::from_str(args).map_err(|_| LimitProblem::NoObject)?;
    let value = |name: &&str| args.get(*name).cloned().ok_or_else(|| LimitProblem::Missing((*name).to_owned()));
    names.iter().map(value).collect()
}

/// The limit of one job, see [`Job::concurrency`](crate::Job::concurrency).
#[derive(Clone, Debug)]
#[must_use = "pass it to `concurrency`"]
pub struct Limit {
    name: String,
    most: u32,
    values: Result<Vec<Value>, LimitProblem>,
    sequence: Option<OnDiscard>,
    rate: Option<RateSpec>,
    on_full: OnFull,
    tenant: Vec<Result<Value, LimitProblem>>,
}

impl Limit {
    /// At most this many jobs of the limit with this name at once.
    pub fn new(name: impl Into<String>, most: u32) -> Self {
        Self {
            name: name.into(),
            most,
            values: Ok(Vec::new()),
            sequence: None,
            rate: None,
            on_full: OnFull::Wait,
            tenant: Vec::new(),
        }
    }

    /// Counts the jobs separately for each value. Several calls make a key of several values. A value is a text, a whole number, a
    /// boolean or null. Default: all jobs of the limit have one key.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.values = self.values.and_then(|mut values| {
            values.push(value_of(value)?);
            Ok(values)
        });
        self
    }

    /// Whether this limit and that of the kind are of the same sort: a limit, a sequence or a rate.
    pub(crate) fn is_like(&self, of_kind: &Concurrency) -> bool {
        (self.sequence.is_some(), self.rate.is_some()) == (of_kind.sequence.is_some(), of_kind.rate.is_some())
    }

    pub(crate) fn of(self) -> Result<JobLimit, LimitProblem> {
        let limit = JobLimit::new(&self.name, self.most, &self.values?, self.sequence, self.rate)?;
        let limit = match self.tenant.is_empty() {
            true => limit,
            false => limit.of_tenant(&self.tenant.into_iter().collect::<Result<Vec<_>, _>>()?)?,
        };
        limit.with_on_full(self.on_full)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Concurrency = Concurrency::new("stripe", 2).by(&["account", "region"]);

    #[test]
    fn the_key_is_the_list_of_the_values() {
        let limit = BY.of(r#"{"region": "e\u0075 \"1\"", "x": 1.5, "account": -7}"#).unwrap();
        assert_eq!((&*limit.name, &*limit.key, limit.most), ("stripe", r#"[-7,"eu \"1\""]"#, 2));
        assert_eq!(Concurrency::new("all", 1).of("[]").unwrap().key, "[]");
        let stored: JobLimit = serde_json::from_str(&limit.to_json()).unwrap();
        assert_eq!(stored, limit);
    }

    #[test]
    fn a_long_key_is_hashed() {
        let limit = Limit::new("stripe", 1).key("x".repeat(1 << 20)).of().unwrap();
        assert!(limit.key.starts_with("sha256:") && limit.key.len() == 71, "{}", limit.key);
        assert_ne!(limit.key, Limit::new("stripe", 1).key("y".repeat(1 << 20)).of().unwrap().key);
        assert_eq!(Limit::new("stripe", 1).key("x".repeat(196)).of().unwrap().key.len(), 200);
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Charge {
        account: i64,
    }

    impl crate::Job for Charge {
        const KIND: &'static str = "charge";
        const OPTIONS: crate::JobOptions =
            crate::JobOptions::new().concurrency(Concurrency::new("charge", 3).by(&["account"]));
    }

    #[test]
    fn a_job_has_the_limit_of_its_kind_or_its_own() {
        use crate::{IntoNewJob as _, Job as _, RunAt};
        let of = |job: crate::JobBuilder| job.into_new_job().unwrap().limit.unwrap();
        let limit = of(Charge { account: 7 }.into());
        assert_eq!((&*limit.name, &*limit.key, limit.most), ("charge", "[7]", 3));
        let limit = of(Charge { account: 7 }.concurrency(Limit::new("bank", 1).key("x")));
        assert_eq!((&*limit.name, &*limit.key, limit.most), ("bank", r#"["x"]"#, 1));
        let refused = Charge { account: 7 }.concurrency(Limit::new("bank", 0)).into_new_job().unwrap_err().to_string();
        assert_eq!(refused, "job `charge`: a limit allows 1 to 10000 jobs at once, not 0");
        let rows = crate::without_arguments::<Charge>().into_new_job().unwrap_err().to_string();
        assert!(rows.contains("enqueue_each"), "{rows}");
        // The job of a schedule has no arguments. All such jobs have one key.
        let scheduled = crate::storage::ScheduledJob::default();
        let options = <Charge as crate::Job>::OPTIONS;
        assert_eq!(scheduled.at("charge", &options, RunAt::Now).limit.unwrap().key, "[]");
    }

    #[test]
    fn bad_limits_are_refused() {
        assert_eq!(BY.of(r#"{"account": 1}"#), Err(LimitProblem::Missing("region".to_owned())));
        assert_eq!(BY.of("[1]"), Err(LimitProblem::NoObject));
        for value in [serde_json::json!(1.5), serde_json::json!([1]), serde_json::json!({}), serde_json::json!("\0")] {
            assert!(matches!(Limit::new("a", 1).key(&value).of(), Err(LimitProblem::Unusable(_))), "{value}");
        }
        for most in [0, MOST_AT_ONCE + 1] {
            assert_eq!(Limit::new("a", most).of(), Err(LimitProblem::Number(most)));
        }
        assert_eq!(Limit::new("", 1).of(), Err(LimitProblem::Name));
    }
}
