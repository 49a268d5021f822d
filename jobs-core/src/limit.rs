//! Limits: how many jobs with the same key may run at once. A sequence is a limit of one, whose jobs run in the order of their ids. A rate
//! limits how many start in a time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

mod rate;
mod sequence;

pub use rate::{Bucket, JobRate, Rate, RateSpec};
use rate::{MOST_BURST, MOST_OF_RATE};
pub use sequence::{OnDiscard, Sequence};

/// The largest number of jobs that a limit may allow at once.
pub const MOST_AT_ONCE: u32 = 10_000;
/// A longer key is replaced by its hash, in bytes.
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
    /// If it is a rate, `most` is how many may start in its time.
    pub rate: Option<RateSpec>,
}

impl Concurrency {
    /// At most this many jobs at once.
    pub const fn new(name: &'static str, most: u32) -> Self {
        Self { name, most, by: &[], sequence: None, rate: None }
    }

    /// A sequence: one job at a time, in the order of their ids. `sequence(by(order_id))` in `#[job]` makes one.
    pub const fn in_sequence(name: &'static str, on_discard: OnDiscard) -> Self {
        Self { name, most: 1, by: &[], sequence: Some(on_discard), rate: None }
    }

    /// Counts the jobs with each value of these arguments apart.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// The limit of a job with these arguments, as JSON text.
    pub(crate) fn of(self, args: &str) -> Result<JobLimit, LimitProblem> {
        let values: Result<Vec<Value>, LimitProblem> = if self.by.is_empty() {
            Ok(Vec::new())
        } else {
            let args: Map<String, Value> = serde_json::from_str(args).map_err(|_| LimitProblem::NoObject)?;
            let value = |name: &&str| args.get(*name).cloned().ok_or_else(|| LimitProblem::Missing((*name).to_owned()));
            self.by.iter().map(value).collect()
        };
        JobLimit::new(self.name, self.most, &values?, self.sequence, self.rate)
    }

    /// Like [`of`](Self::of). If the arguments do not have those of `by`, the key is that of no arguments. `None` if the limit itself is not allowed:
    /// the attribute has refused it.
    pub(crate) fn of_any(self, args: &str) -> Option<JobLimit> {
        let without = |_| JobLimit::new(self.name, self.most, &[], self.sequence, self.rate);
        self.of(args).or_else(without).ok()
    }
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
}

impl Limit {
    /// At most this many jobs of the limit with this name at once.
    pub fn new(name: impl Into<String>, most: u32) -> Self {
        Self { name: name.into(), most, values: Ok(Vec::new()), sequence: None, rate: None }
    }

    /// Counts the jobs with each value apart. Several calls make a key of several values. A value is a text, a whole number, a
    /// boolean or null.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.values = self.values.and_then(|mut values| {
            values.push(serde_json::to_value(value).map_err(|error| LimitProblem::Unusable(error.to_string()))?);
            Ok(values)
        });
        self
    }

    /// Whether this is a limit, a sequence or a rate, as the kind has one.
    pub(crate) fn is_like(&self, of_kind: &Concurrency) -> bool {
        (self.sequence.is_some(), self.rate.is_some()) == (of_kind.sequence.is_some(), of_kind.rate.is_some())
    }

    /// Whether both are limits, sequences or rates.
    pub(crate) fn is_like_own(&self, other: &Self) -> bool {
        (self.sequence.is_some(), self.rate.is_some()) == (other.sequence.is_some(), other.rate.is_some())
    }

    pub(crate) fn of(self) -> Result<JobLimit, LimitProblem> {
        JobLimit::new(&self.name, self.most, &self.values?, self.sequence, self.rate)
    }
}

/// The limit of a stored job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobLimit {
    /// The name of the limit.
    #[serde(rename = "limit")]
    pub name: String,
    /// The key. Only jobs with the same name and key count together.
    pub key: String,
    /// How many of them may run at once.
    pub most: u32,
    /// Whether the jobs are a sequence, and what happens when one of them is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<OnDiscard>,
    /// If it is a rate, `most` of them may start in its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<JobRate>,
}

impl JobLimit {
    fn new(
        name: &str,
        most: u32,
        values: &[Value],
        sequence: Option<OnDiscard>,
        rate: Option<RateSpec>,
    ) -> Result<Self, LimitProblem> {
        let rate = rate.map(|rate| JobRate::of(most, rate)).transpose()?;
        check(name, most, rate)?;
        Ok(Self { name: name.to_owned(), key: key(values)?, most, sequence, rate })
    }

    /// The same limit, if it may be stored. For limits that another program has written, such as an export.
    pub fn checked(self) -> Result<Self, LimitProblem> {
        check(&self.name, self.most, self.rate)?;
        if self.sequence.is_some() && self.rate.is_some() {
            return Err(LimitProblem::Several);
        }
        if self.sequence.is_some() && self.most != 1 {
            return Err(LimitProblem::SequenceOf(self.most));
        }
        if self.key.is_empty() || self.key.len() > LONGEST_KEY || self.key.contains('\0') {
            return Err(LimitProblem::StoredKey);
        }
        Ok(self)
    }

    /// The [flags](crate::flags) of a job with this limit.
    pub const fn flags(&self) -> i32 {
        match (self.sequence, self.rate) {
            (Some(_), _) => crate::flags::LIMITED | crate::flags::SEQUENCE,
            (None, Some(_)) => crate::flags::LIMITED | crate::flags::RATE,
            (None, None) => crate::flags::LIMITED,
        }
    }

    /// The JSON that is stored with the job.
    pub fn to_json(&self) -> String {
        // A struct of two texts and a number can always be written as JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Checks what is stored of a limit besides its key.
fn check(name: &str, most: u32, rate: Option<JobRate>) -> Result<(), LimitProblem> {
    if name.is_empty() || name.len() > LONGEST_KEY || name.contains('\0') {
        return Err(LimitProblem::Name);
    }
    match rate {
        Some(rate) => rate.check(most),
        None if most == 0 || most > MOST_AT_ONCE => Err(LimitProblem::Number(most)),
        None => Ok(()),
    }
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

/// The hash that stands for this text.
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

/// What is wrong with the limit of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitProblem {
    /// The number is not allowed.
    #[error("a limit allows 1 to {MOST_AT_ONCE} jobs at once, not {0}")]
    Number(u32),
    /// The name is not allowed.
    #[error("the name of a limit has 1 to {LONGEST_KEY} bytes and no NUL character")]
    Name,
    /// The arguments have no names.
    #[error("`by` names arguments, but the arguments are not stored as a JSON object")]
    NoObject,
    /// There is no such argument.
    #[error(
        "`by` names the argument `{0}`, which the stored arguments do not have; a field that serde renames or leaves out cannot be a key"
    )]
    Missing(String),
    /// The value cannot be a part of a key.
    #[error("a key is made of texts, whole numbers, booleans and nulls, not of {0}")]
    Unusable(String),
    /// The key that is stored with a job is not allowed.
    #[error("the stored key of a limit has 1 to {LONGEST_KEY} bytes and no NUL character")]
    StoredKey,
    /// A sequence that is stored with a job has another number than one.
    #[error("a sequence runs one job at a time, not {0}")]
    SequenceOf(u32),
    /// The job has a limit of its own, and its kind is a sequence, or the like.
    #[error("a job has one of `concurrency`, `sequence` and `rate`, not several")]
    Several,
    /// The number of a rate is not allowed.
    #[error("a rate allows 1 to {MOST_OF_RATE} starts in its time, not {0}")]
    Starts(u32),
    /// The burst of a rate is not allowed.
    #[error("the burst of a rate is from 1 to {MOST_BURST}, not {0}")]
    Burst(u32),
    /// The time of a rate is not allowed.
    #[error("the time of a rate is at least a millisecond and at most 366 days")]
    Per,
    /// The rate is too high.
    #[error("a rate allows at most 10000 starts in a second")]
    TooFast,
    /// The statement that makes the arguments cannot make a key.
    #[error("`enqueue_each` cannot enqueue jobs with a limit; read the rows, and pass the jobs to `enqueue_all`")]
    OfRows,
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
