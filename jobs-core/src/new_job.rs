//! A job that can be stored, and the builder that makes one from typed arguments.

mod invalid;

use std::borrow::Cow;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::instant::IntoInstant;
use crate::job_options::JobOptions;
use crate::limit::{Concurrency, JobLimit, Limit, LimitProblem, Rate, Sequence};
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

/// When a job may start, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The limit under which it runs. It is boxed, as few jobs have one and a bulk moves many jobs.
    pub limit: Option<Box<JobLimit>>,
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
            limit: None,
            unique: None,
        }
    }

    /// The same job with a unique key.
    pub fn unique(mut self, rule: Unique) -> Result<Self, InvalidJob> {
        let key = rule.of(&self.kind, &self.args);
        let key = key.map_err(|problem| InvalidJob::Unique { kind: self.kind.to_string(), problem })?;
        self.unique = Some(Box::new(key));
        if let (OnConflict::Debounce { quiet, .. }, RunAt::Now) = (rule.on_conflict, self.run_at) {
            self.run_at = RunAt::After(quiet);
        }
        Ok(self)
    }

    /// The same job under this limit: how many jobs with the same name and key may run at once.
    pub fn limited(mut self, limit: Limit) -> Result<Self, InvalidJob> {
        let kind = self.kind.to_string();
        let limit = limit.of().map_err(|problem| InvalidJob::Limit { kind, problem })?;
        self.limit = Some(Box::new(limit));
        Ok(self)
    }

    /// Puts the job into a sequence.
    pub fn sequenced(self, sequence: Sequence) -> Result<Self, InvalidJob> {
        self.limited(sequence.into_limit())
    }

    /// The same job with this rate: how many jobs with the same name and key may start in a time.
    pub fn rated(self, rate: Rate) -> Result<Self, InvalidJob> {
        self.limited(rate.into_limit())
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

    /// Whether the jobs are equal in everything except their arguments.
    pub fn is_like(&self, other: &Self) -> bool {
        self.run_at == other.run_at
            && self.columns() == other.columns()
            && self.limit == other.limit
            && self.unique == other.unique
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
        let ahead = match self.run_at {
            RunAt::Now => Duration::ZERO,
            RunAt::After(delay) => delay,
            RunAt::At(at) | RunAt::Exactly(at) => (at - Utc::now()).to_std().unwrap_or_default(),
        };
        if ahead > MAX_DELAY {
            return Err(InvalidJob::TooFarAhead { kind: kind() });
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
    } else {
        return Ok(());
    };
    let mut value = value.to_owned();
    value.truncate(value.floor_char_boundary(MAX_NAME_BYTES));
    Err(InvalidJob::Name { kind: kind.escape_debug().to_string(), what, value, problem })
}

/// A value that can be enqueued: a job value, a [`JobBuilder`] or a [`NewJob`].
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

/// One job with some of its kind's defaults overridden. Made by the methods of [`Job`](crate::Job).
///
/// Its type does not contain the job's type. So jobs of several kinds fit into one `Vec` for `enqueue_all`:
/// `vec![SendWelcome { user_id: 1 }.into(), Reindex.priority(-5)]`.
#[derive(Debug)]
#[must_use = "a job does nothing until it is enqueued"]
pub struct JobBuilder {
    job: NewJob,
    encode_error: Option<serde_json::Error>,
    concurrency: Option<Box<Concurrency>>,
    limit: Option<Box<Limit>>,
    unique: Option<Box<Unique>>,
    /// The arguments come from the rows of a query.
    is_of_rows: bool,
    /// It was given limits of two sorts.
    has_several: bool,
}

impl JobBuilder {
    /// The options are a reference, because each job of a bulk would copy them.
    pub(crate) fn of(kind: &'static str, options: &'static JobOptions, args: &impl Serialize) -> Self {
        let (args, encode_error) = match serde_json::to_string(args) {
            Ok(args) => (args, None),
            Err(error) => (String::new(), Some(error)),
        };
        let job = NewJob {
            kind: Cow::Borrowed(kind),
            queue: Cow::Borrowed(options.queue),
            priority: options.priority,
            run_at: RunAt::Now,
            max_attempts: options.max_attempts,
            args,
            tags: Vec::new(),
            traceparent: None,
            limit: None,
            unique: None,
        };
        let (concurrency, unique) = (options.concurrency.map(Box::new), options.unique.map(Box::new));
        Self { job, encode_error, concurrency, limit: None, unique, is_of_rows: false, has_several: false }
    }

    pub(crate) fn of_rows(mut self) -> Self {
        self.is_of_rows = true;
        self
    }

    /// See [`Job::concurrency`](crate::Job::concurrency).
    pub fn concurrency(mut self, limit: Limit) -> Self {
        self.has_several |= self.limit.as_ref().is_some_and(|before| !before.is_like_own(&limit));
        self.limit = Some(Box::new(limit));
        self
    }

    /// See [`Job::sequence`](crate::Job::sequence).
    pub fn sequence(self, sequence: Sequence) -> Self {
        self.concurrency(sequence.into_limit())
    }

    /// See [`Job::rate`](crate::Job::rate).
    pub fn rate(self, rate: Rate) -> Self {
        self.concurrency(rate.into_limit())
    }

    /// See [`Job::unique`](crate::Job::unique).
    pub fn unique(mut self, rule: Unique) -> Self {
        self.unique = Some(Box::new(rule));
        self
    }

    /// See [`Job::delay`](crate::Job::delay).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.job.run_at = RunAt::After(delay);
        self
    }

    /// See [`Job::run_at`](crate::Job::run_at).
    pub fn run_at(mut self, at: impl IntoInstant) -> Self {
        self.job.run_at = RunAt::At(at.into_instant());
        self
    }

    /// See [`Job::priority`](crate::Job::priority).
    pub fn priority(mut self, priority: i16) -> Self {
        self.job.priority = priority;
        self
    }

    /// See [`Job::queue`](crate::Job::queue).
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.job.queue = Cow::Owned(queue.into());
        self
    }

    /// See [`Job::max_attempts`](crate::Job::max_attempts).
    pub fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.job.max_attempts = max_attempts;
        self
    }

    /// See [`Job::tags`](crate::Job::tags).
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.job.tags = tags.into_iter().map(Into::into).collect();
        self
    }
}

impl IntoNewJob for JobBuilder {
    fn into_new_job(self) -> Result<NewJob, InvalidJob> {
        let Self { mut job, encode_error, concurrency, limit, unique, is_of_rows, has_several } = self;
        if let Some(source) = encode_error {
            return Err(InvalidJob::Encode { kind: job.kind.into_owned(), source });
        }
        if let Some(rule) = unique {
            if is_of_rows {
                return Err(InvalidJob::Unique { kind: job.kind.into_owned(), problem: UniqueProblem::OfRows });
            }
            job = job.unique(*rule)?;
        }
        let limit = match (limit, concurrency) {
            (None, None) => return job.into_new_job(),
            _ if is_of_rows => Err(LimitProblem::OfRows),
            _ if has_several => Err(LimitProblem::Several),
            (Some(limit), Some(of_kind)) if !limit.is_like(&of_kind) => Err(LimitProblem::Several),
            (Some(limit), _) => limit.of(),
            (None, Some(concurrency)) => concurrency.of(&job.args),
        };
        let limit = limit.map_err(|problem| InvalidJob::Limit { kind: job.kind.to_string(), problem })?;
        job.limit = Some(Box::new(limit));
        job.into_new_job()
    }
}
