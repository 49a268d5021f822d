//! A job that can be stored, and the builder that makes one from typed arguments.

mod invalid;

use std::borrow::Cow;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::json_depth::is_too_deep;
use crate::queue_pattern::{HAS_A_STAR, is_pattern};
use crate::rules::{OwnRule, Rules};
use crate::trace_context::Traceparent;
use crate::unique::{OnConflict, Unique, UniqueKey, UniqueProblem};
pub use invalid::InvalidJob;

/// The largest encoded arguments accepted, in bytes: 256 KiB.
pub const MAX_ARGS_BYTES: usize = 256 * 1024;
/// The longest kind, queue or tag accepted, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// The largest number of tags of one job.
const MAX_TAGS: usize = 32;
/// The longest time from now until a job is due: a hundred years.
const MAX_DELAY: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// The shortest time in which a job may have to start.
const SHORTEST_EXPIRY: Duration = Duration::from_millis(1);

/// When a job may start, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunAt {
    /// As soon as the transaction that enqueues it has committed.
    Now,
    /// This time after the enqueue.
    After(Duration),
    /// At this time. A time in the past means at once.
    At(DateTime<Utc>),
    /// Stores this time as `run_at`, even if it has passed. The jobs of ticks use it: their `run_at` is the time of the
    /// tick, however late the tick is processed. Claims may find such a job only after a rescan.
    Exactly(DateTime<Utc>),
}

impl RunAt {
    /// The delay from the enqueue, and the time before which the job must not start. The later of both is the job's
    /// time. If there is no delay, the time counts even if it has passed.
    pub fn parts(self) -> (Option<Duration>, Option<DateTime<Utc>>) {
        match self {
            Self::Now => (Some(Duration::ZERO), None),
            Self::After(delay) => (Some(delay), None),
            Self::At(at) => (Some(Duration::ZERO), Some(at)),
            Self::Exactly(at) => (None, Some(at)),
        }
    }
}

/// One job with encoded arguments, as a storage inserts it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// The kind. It selects the handler.
    pub kind: Cow<'static, str>,
    /// The queue.
    pub queue: Cow<'static, str>,
    /// Higher runs first.
    pub priority: i16,
    /// When it may start.
    pub run_at: RunAt,
    /// How many attempts the job has, at least 1.
    pub max_attempts: u16,
    /// The arguments as JSON text.
    pub args: String,
    /// Labels for queries of the application.
    pub tags: Vec<String>,
    /// The trace context of the enqueue. If it is `None`, the enqueue stores the current one.
    pub traceparent: Option<Traceparent>,
    /// The rules that decide when it may start.
    pub rules: Rules,
    /// How long after `run_at` its first attempt may start. Later the job is cancelled.
    pub expires: Option<Duration>,
    /// The unique key, and what happens if another job has it.
    pub unique: Option<Box<UniqueKey>>,
}

/// A value to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Integer(i64),
    /// A list of texts.
    Texts(&'a [String]),
    /// A text that may be null.
    OptionalText(Option<&'a str>),
}

impl std::fmt::Debug for NewJob {
    // Arguments may contain personal data or secrets, so only their size is printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewJob")
            .field("kind", &self.kind)
            .field("queue", &self.queue)
            .field("priority", &self.priority)
            .field("run_at", &self.run_at)
            .field("max_attempts", &self.max_attempts)
            .field("args_bytes", &self.args.len())
            .field("tags", &self.tags)
            .finish()
    }
}

impl NewJob {
    /// How many [`columns`](Self::columns) there are.
    pub const COLUMNS: usize = 6;

    /// A job with this kind and these arguments, for callers without a Rust type for it. `args` must be JSON text.
    pub fn raw(kind: impl Into<Cow<'static, str>>, args: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            queue: Cow::Borrowed("default"),
            priority: 0,
            run_at: RunAt::Now,
            max_attempts: 25,
            args: args.into(),
            tags: Vec::new(),
            traceparent: None,
            rules: Rules::default(),
            expires: None,
            unique: None,
        }
    }

    /// Called before a key is made of the arguments, too: what cannot be read makes no key.
    pub(crate) fn refuse_deep_args(&self) -> Result<(), InvalidJob> {
        if is_too_deep(self.args.as_bytes()) {
            Err(InvalidJob::TooDeep { kind: self.kind.to_string() })
        } else {
            Ok(())
        }
    }

    /// The same job with a unique key, which is named after its kind.
    pub fn unique(self, rule: Unique) -> Result<Self, InvalidJob> {
        let name = self.kind.clone();
        self.unique_under(name, rule)
    }

    /// The same job with a unique key of this name.
    pub(crate) fn unique_under(mut self, name: Cow<'static, str>, rule: Unique) -> Result<Self, InvalidJob> {
        self.refuse_deep_args()?;
        let key = rule.of(name, &self.args);
        let key = key.map_err(|problem| InvalidJob::Unique { kind: self.kind.to_string(), problem })?;
        if self.runs_again() {
            self.rules = Rules::default();
        }
        if let Some(sequence) = key.sequence() {
            self.refuse_two_limits(!self.rules.is_empty())?;
            self.rules = sequence;
        }
        self.unique = Some(Box::new(key));
        if let (OnConflict::Debounce { quiet, .. }, RunAt::Now) = (rule.on_conflict, self.run_at) {
            self.run_at = RunAt::After(quiet);
        }
        Ok(self)
    }

    /// Whether the rule of its unique key is `run_again`. Then its limit is the sequence of this key.
    pub(crate) fn runs_again(&self) -> bool {
        self.unique.as_ref().is_some_and(|unique| unique.rule.on_conflict == OnConflict::RunAgain)
    }

    pub(crate) fn refuse_two_limits(&self, are_two: bool) -> Result<(), InvalidJob> {
        let refused = || InvalidJob::Unique { kind: self.kind.to_string(), problem: UniqueProblem::RunAgainLimited };
        if are_two { Err(refused()) } else { Ok(()) }
    }

    /// The same job with this rule, too: a [`Limit`](crate::Limit), a [`Sequence`](crate::Sequence) or a
    /// [`Rate`](crate::Rate).
    pub fn rule(mut self, rule: impl Into<OwnRule>) -> Result<Self, InvalidJob> {
        self.refuse_two_limits(self.runs_again())?;
        let before = std::mem::take(&mut self.rules).into_vec();
        let all = Rules::of(before.into_iter().map(Ok).chain([rule.into().of()]));
        self.rules = all.map_err(|problem| InvalidJob::Limit { kind: self.kind.to_string(), problem })?;
        Ok(self)
    }

    /// The stored columns and their values, in a fixed order, without the arguments and the time. To add an option of a
    /// job, add its column here. SQLite inserts all of these columns and needs no further code.
    pub fn columns(&self) -> [(&'static str, Column<'_>); Self::COLUMNS] {
        [
            ("kind", Column::Text(&self.kind)),
            ("queue", Column::Text(&self.queue)),
            ("priority", Column::Integer(self.priority.into())),
            ("max_attempts", Column::Integer(self.max_attempts.into())),
            ("tags", Column::Texts(&self.tags)),
            ("traceparent", Column::OptionalText(self.traceparent.as_ref().map(Traceparent::as_str))),
        ]
    }

    /// Whether it is more than a row in the queue: it has rules or a unique key, or it expires.
    pub fn needs_more(&self) -> bool {
        !self.rules.is_empty() || self.unique.is_some() || self.expires.is_some()
    }

    /// Whether the jobs are equal in everything except their arguments.
    pub fn is_like(&self, other: &Self) -> bool {
        self.is_like_but_key(other) && self.unique == other.unique
    }

    /// Whether the jobs are equal in everything except their arguments and their unique keys.
    pub fn is_like_but_key(&self, other: &Self) -> bool {
        self.has_columns_of(other) && self.rules == other.rules
    }

    /// Whether the jobs are equal in everything except their arguments and the key of their rule.
    pub fn is_like_but_rule_key(&self, other: &Self) -> bool {
        self.rules.are_like_but_key(&other.rules) && self.has_columns_of(other) && self.unique == other.unique
    }

    fn has_columns_of(&self, other: &Self) -> bool {
        self.run_at == other.run_at && self.columns() == other.columns() && self.expires == other.expires
    }

    /// Refuses what no storage could store, so that no statement fails inside the caller's transaction.
    pub fn validate(&self) -> Result<(), InvalidJob> {
        let kind = || self.kind.to_string();
        check_name(&self.kind, "kind", &self.kind)?;
        check_name(&self.kind, "queue", &self.queue)?;
        if self.tags.len() > MAX_TAGS {
            return Err(InvalidJob::Tags { kind: kind(), given: self.tags.len() });
        }
        for tag in &self.tags {
            check_name(&self.kind, "tag", tag)?;
        }
        if self.max_attempts == 0 || self.max_attempts > i16::MAX as u16 {
            return Err(InvalidJob::MaxAttempts { kind: kind(), given: self.max_attempts });
        }
        if self.args.len() > MAX_ARGS_BYTES {
            return Err(InvalidJob::TooLarge { kind: kind(), bytes: self.args.len() });
        }
        self.refuse_deep_args()?;
        let ahead = match self.run_at {
            RunAt::Now => Duration::ZERO,
            RunAt::After(delay) => delay,
            RunAt::At(at) | RunAt::Exactly(at) => (at - Utc::now()).to_std().unwrap_or_default(),
        };
        if ahead > MAX_DELAY {
            return Err(InvalidJob::TooFarAhead { kind: kind() });
        }
        if self.expires.is_some_and(|time| time < SHORTEST_EXPIRY || time > MAX_DELAY) {
            return Err(InvalidJob::Expires { kind: kind() });
        }
        Ok(())
    }
}

fn check_name(kind: &str, what: &'static str, value: &str) -> Result<(), InvalidJob> {
    let problem = if value.is_empty() {
        "is empty"
    } else if value.len() > MAX_NAME_BYTES {
        "is longer than 200 bytes"
    } else if value.contains('\0') {
        "contains a NUL character, which databases do not store"
    } else if what == "queue" && is_pattern(value) {
        HAS_A_STAR
    } else {
        return Ok(());
    };
    let mut value = value.to_owned();
    value.truncate(value.floor_char_boundary(MAX_NAME_BYTES));
    Err(InvalidJob::Name { kind: kind.escape_debug().to_string(), what, value, problem })
}

/// A value that can be enqueued: a job value, a [`JobBuilder`](crate::JobBuilder) or a [`NewJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job and cannot be enqueued",
    label = "not a job",
    note = "write `#[job]` above a function, or `#[derive(Job)]` above a struct with serde's derives"
)]
pub trait IntoNewJob {
    /// Encodes and checks the job.
    fn into_new_job(self) -> Result<NewJob, InvalidJob>;
}

impl IntoNewJob for NewJob {
    fn into_new_job(self) -> Result<NewJob, InvalidJob> {
        self.validate().map(|()| self)
    }
}
