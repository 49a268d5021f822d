//! Unique jobs: at most one job with the same key that has not ended, or not started.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::limit::{LimitProblem, hashed, key};

/// The longest time of a rule: a hundred years.
const MOST_SECONDS: u64 = 36_525 * 24 * 3600;

/// When an enqueue finds a job with the same key. `unique(by(user_id))` in `#[job]` makes one. It also replaces the rule of the kind for
/// one job: see [`Job::unique`](crate::Job::unique).
///
/// ```
/// # use diesel_jobs_core::{OnConflict, Unique};
/// # use std::time::Duration;
/// const RULE: Unique = Unique::new().by(&["user_id"]).within(Duration::from_secs(300)).on_conflict(OnConflict::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unique {
    /// The arguments whose values are the key. If there are none, all arguments are.
    pub by: &'static [&'static str],
    /// How long a job keeps its key at most, from its enqueue. Default: as long as [`until`](Self::until) says.
    pub within: Option<Duration>,
    /// How long a job keeps its key. Default: until it has ended.
    pub until: Until,
    /// What an enqueue does if another job has the key. Default: it keeps that job.
    pub on_conflict: OnConflict,
}

/// How long a job keeps its unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Until it has ended for good: completed, cancelled or discarded. A job that waits for its next attempt keeps it.
    #[default]
    Finished,
    /// Until a worker claims it for the first time.
    Started,
}

/// What an enqueue does if another job has its unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It changes nothing, and answers that job.
    #[default]
    Keep,
    /// It changes that job if it waits, and answers it. A running job is kept as it is.
    Replace(Replace),
    /// It fails with a typed error. The transaction stays usable.
    Error,
    /// It gives that job, if it waits, the new arguments, and makes it wait again: see [`Unique::debounce`].
    #[doc(hidden)]
    Debounce {
        /// How long it waits for another enqueue.
        quiet: Duration,
        /// How long it waits at most, from the first enqueue.
        max: Duration,
    },
}

/// What of a waiting job is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replace {
    /// The arguments.
    pub args: bool,
    /// The time at which it is due.
    pub run_at: bool,
    /// The priority.
    pub priority: bool,
}

impl Replace {
    /// Nothing yet: add what is replaced.
    pub const fn new() -> Self {
        Self { args: false, run_at: false, priority: false }
    }

    /// Replaces the arguments.
    pub const fn args(mut self) -> Self {
        self.args = true;
        self
    }

    /// Replaces the time at which it is due.
    pub const fn run_at(mut self) -> Self {
        self.run_at = true;
        self
    }

    /// Replaces the priority.
    pub const fn priority(mut self) -> Self {
        self.priority = true;
        self
    }
}

impl Unique {
    /// At most one job with the same arguments that has not ended.
    pub const fn new() -> Self {
        Self { by: &[], within: None, until: Until::Finished, on_conflict: OnConflict::Keep }
    }

    /// The job starts when nothing with its key has been enqueued for `quiet`, but at most `max` after the first enqueue. It has the
    /// newest arguments.
    pub const fn debounce(quiet: Duration, max: Duration) -> Self {
        Self { by: &[], within: None, until: Until::Started, on_conflict: OnConflict::Debounce { quiet, max } }
    }

    /// Names the arguments whose values are the key.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// Sets how long a job keeps its key at most, from its enqueue.
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Sets how long a job keeps its key.
    pub const fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Sets what an enqueue does if another job has the key.
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// The key of a job of this kind with these arguments.
    pub(crate) fn of(self, kind: &str, args: &str) -> Result<UniqueKey, UniqueProblem> {
        self.check()?;
        let key = if self.by.is_empty() {
            let args: Value = serde_json::from_str(args).map_err(|_| LimitProblem::NoObject)?;
            // Always hashed, because the arguments may be long or secret.
            hashed(&canonical(&args))
        } else {
            let args: Map<String, Value> = serde_json::from_str(args).map_err(|_| LimitProblem::NoObject)?;
            let value = |name: &&str| args.get(*name).cloned().ok_or_else(|| LimitProblem::Missing((*name).to_owned()));
            key(&self.by.iter().map(value).collect::<Result<Vec<_>, _>>()?)?
        };
        Ok(UniqueKey { name: without_version(kind).to_owned(), key, rule: self })
    }

    /// The key of the job of a schedule. A conflict is no error there: another job does the work. `None` if the rule itself is not allowed:
    /// the attribute has refused it.
    pub(crate) fn of_tick(mut self, kind: &str, args: &str) -> Option<UniqueKey> {
        if self.on_conflict == OnConflict::Error {
            self.on_conflict = OnConflict::Keep;
        }
        self.of(kind, args).or_else(|_| Self { by: &[], ..self }.of(kind, args)).ok()
    }

    fn check(self) -> Result<(), UniqueProblem> {
        let most = Duration::from_secs(MOST_SECONDS);
        match self.on_conflict {
            OnConflict::Replace(replace) if replace == Replace::new() => return Err(UniqueProblem::ReplacesNothing),
            OnConflict::Debounce { quiet, max } if quiet.is_zero() || max < quiet || max > most => {
                return Err(UniqueProblem::Debounce);
            }
            _ => {}
        }
        if self.within.is_some_and(|within| within.is_zero() || within > most) {
            return Err(UniqueProblem::Within);
        }
        Ok(())
    }
}

impl Default for Unique {
    fn default() -> Self {
        Self::new()
    }
}

/// The unique key of a job that is enqueued, and its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UniqueKey {
    /// The kind without the version of its arguments. Only jobs with the same name can have the same key.
    pub name: String,
    /// The values of the key as JSON, or their hash.
    pub key: String,
    /// What happens if another job has the key.
    pub rule: Unique,
}

impl UniqueKey {
    /// The rule as JSON, as the SQL function `jobs.take_key` reads it.
    pub fn to_json(&self) -> String {
        let (replace, debounce) = match self.rule.on_conflict {
            OnConflict::Replace(replace) => (replace, None),
            OnConflict::Debounce { quiet, max } => (Replace::new().args(), Some((quiet, max))),
            OnConflict::Keep | OnConflict::Error => (Replace::new(), None),
        };
        let rule = Rule {
            name: &self.name,
            key: &self.key,
            started: self.rule.until == Until::Started,
            within: self.rule.within.map(|within| within.as_secs_f64()),
            error: self.rule.on_conflict == OnConflict::Error,
            args: replace.args,
            run_at: replace.run_at,
            priority: replace.priority,
            quiet: debounce.map(|(quiet, _)| quiet.as_secs_f64()),
            max: debounce.map(|(_, max)| max.as_secs_f64()),
        };
        // A struct of texts, numbers and booleans can always be written as JSON.
        serde_json::to_string(&rule).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Rule<'a> {
    name: &'a str,
    key: &'a str,
    started: bool,
    within: Option<f64>,
    error: bool,
    args: bool,
    run_at: bool,
    priority: bool,
    quiet: Option<f64>,
    max: Option<f64>,
}

/// The kind without the version of its arguments: `charge` of `charge.v2`.
fn without_version(kind: &str) -> &str {
    match kind.rsplit_once(".v") {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => kind,
    }
}

/// The same text for the same arguments: without spaces, and with sorted names. The SQL function `jobs.canonical` makes the same.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let field = |name: &&String| format!("{}:{}", Value::String((*name).clone()), canonical(&fields[*name]));
            format!("{{{}}}", names.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// What is wrong with the unique key of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UniqueProblem {
    /// There is no such key.
    #[error(transparent)]
    Key(#[from] LimitProblem),
    /// `replace` names nothing.
    #[error("`replace` of a unique job names what is replaced: the arguments, the time or the priority")]
    ReplacesNothing,
    /// The time is not allowed.
    #[error("`within` of a unique job is longer than 0 and at most a hundred years")]
    Within,
    /// The times are not allowed.
    #[error("`quiet` of a debounced job is longer than 0, and `max` is at least as long and at most a hundred years")]
    Debounce,
    /// Two jobs of one call have the same key, and the rule says `error`.
    #[error("two of the jobs have the unique key {0}")]
    Twice(String),
    /// The statement that makes the arguments cannot make a key.
    #[error("`enqueue_each` cannot enqueue unique jobs; read the rows, and pass the jobs to `enqueue_all`")]
    OfRows,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Unique = Unique::new().by(&["user", "region"]);

    #[test]
    fn the_key_is_the_list_of_the_values_or_the_hash_of_all_arguments() {
        let key = RULE.of("charge.v12", r#"{"region": "eu", "x": 1.5, "user": 7}"#).unwrap();
        assert_eq!((&*key.name, &*key.key), ("charge", r#"[7,"eu"]"#));
        assert_eq!(RULE.of("charge.vip", r#"{"region": "eu", "user": 7}"#).unwrap().name, "charge.vip");
        let all = |args: &str| Unique::new().of("charge", args).unwrap().key;
        let one = all(r#"{"b": [1, {"d": null, "c": 2.5}], "a": "é\n"}"#);
        assert!(one.starts_with("sha256:"));
        assert_eq!(one, all(r#"{"a":"\u00e9\n","b":[1,{"c":2.5,"d":null}]}"#));
        assert_ne!(one, all(r#"{"a":"\u00e9\n","b":[{"c":2.5,"d":null},1]}"#));
        assert_eq!(
            canonical(&serde_json::json!({"b": [], "a": {"z": "\"", "y": true}})),
            r#"{"a":{"y":true,"z":"\""},"b":[]}"#
        );
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        let of = |rule: Unique| rule.of("a", r#"{"user": 1, "region": 2}"#).unwrap_err();
        let seconds = Duration::from_secs;
        assert_eq!(of(RULE.within(Duration::ZERO)), UniqueProblem::Within);
        assert_eq!(of(RULE.within(Duration::MAX)), UniqueProblem::Within);
        assert_eq!(of(RULE.on_conflict(OnConflict::Replace(Replace::new()))), UniqueProblem::ReplacesNothing);
        for (quiet, max) in [(0, 1), (2, 1), (1, u64::MAX)] {
            assert_eq!(of(Unique::debounce(seconds(quiet), seconds(max))), UniqueProblem::Debounce);
        }
        assert_eq!(of(RULE.by(&["nobody"])), UniqueProblem::Key(LimitProblem::Missing("nobody".to_owned())));
        assert_eq!(Unique::new().of("a", "no json").unwrap_err(), UniqueProblem::Key(LimitProblem::NoObject));
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Index {
        user: i64,
    }

    impl crate::Job for Index {
        const KIND: &'static str = "index";
        const OPTIONS: crate::JobOptions = crate::JobOptions::new()
            .unique(Unique::debounce(Duration::from_secs(5), Duration::from_secs(60)).by(&["user"]));
    }

    #[test]
    fn a_job_has_the_rule_of_its_kind_or_its_own() {
        use crate::{IntoNewJob as _, Job as _, RunAt};
        let job = Index { user: 7 }.into_new_job().unwrap();
        assert_eq!((job.run_at, &*job.unique.unwrap().key), (RunAt::After(Duration::from_secs(5)), "[7]"));
        let job = Index { user: 7 }.unique(Unique::new()).into_new_job().unwrap();
        assert_eq!(job.run_at, RunAt::Now);
        let refused = Index { user: 7 }.unique(RULE).into_new_job().unwrap_err().to_string();
        assert!(refused.starts_with("job `index`: `by` names the argument `region`"), "{refused}");
        assert!(crate::without_arguments::<Index>().into_new_job().unwrap_err().to_string().contains("enqueue_each"));
        // A schedule has no arguments, and a conflict is no error there.
        let options = crate::JobOptions::new().unique(RULE.on_conflict(OnConflict::Error));
        let unique = crate::storage::ScheduledJob::default().at("index", &options, RunAt::Now).unique.unwrap();
        assert!(unique.rule.on_conflict == OnConflict::Keep && unique.key.starts_with("sha256:"));
    }
}
