//! Unique jobs: at most one job with the same key that has not ended, or not started.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::canonical::canonical;
use crate::rules::{JobRule, OnDiscard, Rule as JobsRule, RuleProblem, Rules, hashed, is_stored_key, key_of};

mod problem;

pub use problem::UniqueProblem;

/// The longest time of a rule: a hundred years.
const MOST_SECONDS: u64 = 36_525 * 24 * 3600;

/// A rule that makes jobs unique: which arguments form the key, how long a job keeps it, and what an enqueue does if
/// another job has it. The option `unique(by(user_id))` of `#[job]` creates one for a kind, and
/// [`Job::unique`](crate::Job::unique) replaces it for one job.
///
/// ```
/// # use diesel_jobs_core::{OnConflict, Unique};
/// # use std::time::Duration;
/// const RULE: Unique = Unique::new().by(&["user_id"]).within(Duration::from_secs(300)).on_conflict(OnConflict::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unique {
    /// The arguments whose values form the key. If it is empty, all arguments form the key.
    pub by: &'static [&'static str],
    /// The longest time for which a job keeps its key, counted from its enqueue. Default: no bound other than
    /// [`until`](Self::until).
    pub within: Option<Duration>,
    /// The event at which a job gives up its key. Default: its end.
    pub until: Until,
    /// What an enqueue does if another job has the key. Default: it keeps that job, and inserts none.
    pub on_conflict: OnConflict,
}

/// How long a job keeps its unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Until the job has ended, which means that it is completed, cancelled or discarded. A job that waits for its next
    /// attempt keeps the key.
    #[default]
    Finished,
    /// Until a worker claims the job for the first time.
    Started,
}

/// What an enqueue does if another job has its unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// Changes nothing, and returns the id of the other job.
    #[default]
    Keep,
    /// Replaces parts of the other job if it is still waiting, and returns its id. A running job is not changed.
    Replace(Replace),
    /// Fails with a typed error. The caller's transaction stays usable.
    Error,
    /// If the other job is waiting, replaces its arguments. If it is running, inserts the new job, which takes over the
    /// key and starts after the running job has ended. The last enqueue is therefore always followed by a run with its
    /// arguments. Because the jobs with a key form a sequence, they cannot have other rules.
    RunAgain,
    /// If the other job is waiting, replaces its arguments and its time: see [`Unique::debounce`].
    #[doc(hidden)]
    Debounce {
        /// How long it waits for another enqueue.
        quiet: Duration,
        /// How long it waits at most, from the first enqueue.
        max: Duration,
    },
}

/// Which parts of a waiting job are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replace {
    /// The arguments.
    pub args: bool,
    /// The time at which the job is due.
    pub run_at: bool,
    /// The priority.
    pub priority: bool,
}

impl Replace {
    /// Replaces nothing yet. Call the other methods to select what is replaced.
    pub const fn new() -> Self {
        Self { args: false, run_at: false, priority: false }
    }

    /// Replaces the arguments.
    pub const fn args(mut self) -> Self {
        self.args = true;
        self
    }

    /// Replaces the time at which the job is due.
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
    /// Allows at most one job with the same arguments that has not ended. An enqueue that finds one keeps it.
    pub const fn new() -> Self {
        Self { by: &[], within: None, until: Until::Finished, on_conflict: OnConflict::Keep }
    }

    /// Merges repeated enqueues into one job with the newest arguments. The job is due once nothing with its key has
    /// been enqueued for `quiet`, and at the latest `max` after the first enqueue. `quiet` is longer than 0, and `max`
    /// is at least as long and at most 100 years; the enqueue fails with any other value.
    pub const fn debounce(quiet: Duration, max: Duration) -> Self {
        Self { by: &[], within: None, until: Until::Started, on_conflict: OnConflict::Debounce { quiet, max } }
    }

    /// Names the arguments whose values form the key. Default: all arguments.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// Sets the longest time for which a job keeps its key, counted from its enqueue, up to 100 years. Default: no
    /// bound other than [`until`](Self::until).
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Sets the event at which a job gives up its key. Default: its end.
    pub const fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Sets what an enqueue does if another job has the key. Default: it keeps that job, and inserts none.
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// The key of a job with these arguments. `kind` is the job's, or the oldest name of its kind.
    pub(crate) fn of(self, kind: Cow<'static, str>, args: &str) -> Result<UniqueKey, UniqueProblem> {
        self.check()?;
        let key = if self.by.is_empty() {
            // Always hashed, because the arguments may be long or secret.
            hashed(&canonical(args).map_err(RuleProblem::Key)?)
        } else {
            key_of(self.by, args)?
        };
        let name = match kind {
            // The jobs of a bulk need no copies of the name.
            Cow::Borrowed(kind) => Cow::Borrowed(without_version(kind)),
            Cow::Owned(kind) => Cow::Owned(without_version(&kind).to_owned()),
        };
        Ok(UniqueKey { name, key, rule: self })
    }

    /// The key of the job of a schedule. There, a conflict is no error, because another job does the work. `None` if
    /// the rule itself is invalid: then the attribute has reported it.
    pub(crate) fn of_tick(mut self, kind: Cow<'static, str>, args: &str) -> Option<UniqueKey> {
        if self.on_conflict == OnConflict::Error {
            self.on_conflict = OnConflict::Keep;
        }
        self.of(kind.clone(), args).or_else(|_| Self { by: &[], ..self }.of(kind, args)).ok()
    }

    fn check(self) -> Result<(), UniqueProblem> {
        let most = Duration::from_secs(MOST_SECONDS);
        match self.on_conflict {
            OnConflict::Replace(replace) if replace == Replace::new() => return Err(UniqueProblem::ReplacesNothing),
            OnConflict::Debounce { quiet, max } if quiet.is_zero() || max < quiet || max > most => {
                return Err(UniqueProblem::Debounce);
            }
            OnConflict::RunAgain if self.until == Until::Started => return Err(UniqueProblem::RunAgainStarted),
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

/// The unique key of a job to be enqueued, and its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UniqueKey {
    /// The kind, or the oldest of its aliases, without the version of its arguments. Keys of different names never
    /// conflict.
    pub name: Cow<'static, str>,
    /// The values of the key as JSON, or their hash.
    pub key: String,
    /// What happens if another job has the key.
    pub rule: Unique,
}

impl UniqueKey {
    /// A key that was written by another program, such as an export. An enqueue that finds another job with the key
    /// keeps that job.
    #[doc(hidden)]
    pub fn written(name: String, key: String, until: Until, within: Option<Duration>) -> Result<Self, UniqueProblem> {
        let rule = Unique { within, until, ..Unique::new() };
        rule.check()?;
        // The rules of a job have names and keys of the same form.
        JobRule::new(name.clone(), key.clone(), JobsRule::Sequence { on_discard: OnDiscard::Skip }, None)?;
        if !is_stored_key(&key) {
            return Err(RuleProblem::StoredKey.into());
        }
        Ok(Self { name: name.into(), key, rule })
    }

    /// The sequence in which a job with this key runs after the one before it, if the rule says so.
    pub(crate) fn sequence(&self) -> Option<Rules> {
        let rule = JobsRule::Sequence { on_discard: OnDiscard::Skip };
        let runs_again = self.rule.on_conflict == OnConflict::RunAgain;
        // The name is that of a kind, and the key was made here, so both may be stored.
        runs_again
            .then(|| Rules::of([JobRule::new(self.name.to_string(), self.key.clone(), rule, None)]).ok())
            .flatten()
    }
}

impl Unique {
    /// The rule as JSON, as the SQL function `jobs.take_key` reads it.
    #[doc(hidden)]
    pub fn to_json(&self) -> String {
        let (replace, debounce) = match self.on_conflict {
            OnConflict::Replace(replace) => (replace, None),
            OnConflict::Debounce { quiet, max } => (Replace::new().args(), Some((quiet, max))),
            OnConflict::RunAgain => (Replace::new().args(), None),
            OnConflict::Keep | OnConflict::Error => (Replace::new(), None),
        };
        let rule = Rule {
            started: self.until == Until::Started,
            within: self.within.map(|within| within.as_secs_f64()),
            error: self.on_conflict == OnConflict::Error,
            again: self.on_conflict == OnConflict::RunAgain,
            args: replace.args,
            run_at: replace.run_at,
            priority: replace.priority,
            quiet: debounce.map(|(quiet, _)| quiet.as_secs_f64()),
            max: debounce.map(|(_, max)| max.as_secs_f64()),
        };
        // A struct of numbers and booleans can always be written as JSON.
        serde_json::to_string(&rule).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Rule {
    started: bool,
    within: Option<f64>,
    error: bool,
    again: bool,
    args: bool,
    run_at: bool,
    priority: bool,
    quiet: Option<f64>,
    max: Option<f64>,
}

/// The kind without the version of its arguments: `charge` of `charge.v2`.
pub(crate) fn without_version(kind: &str) -> &str {
    match kind.rsplit_once(".v") {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => kind,
    }
}

#[cfg(test)]
mod tests;
