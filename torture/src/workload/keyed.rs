//! Jobs with a unique key, for each way in which a key is kept.

use std::time::Duration;

use anyhow::{Result, bail};
use diesel_jobs::enqueue::{IntoNewJob as _, InvalidJob, RunAt};
use diesel_jobs::rules::{OnConflict, Replace, Unique, Until};
use diesel_jobs::{Job as _, JobContext, NewJob, State, job};

use crate::history::{Recorder, What};

/// How long a debounced job waits for another enqueue.
pub const QUIET: Duration = Duration::from_millis(400);
/// How long a debounced job waits at most.
pub const MAX: Duration = Duration::from_millis(1_500);

/// How long other jobs that can only be found while they wait are not due.
const WAIT: Duration = Duration::from_millis(150);

const RULE: Unique = Unique::new().by(&["key"]);

/// What a rule does, and how long a job keeps its key. A key begins with the name of its rule, so no two rules have a
/// key in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The job that is there stays as it is, until it has ended.
    Keep,
    /// The job that is there gets the newest arguments while it waits, until it has ended.
    Replace,
    /// The job that is there stays as it is, until it has started.
    Started,
    /// The job that is there gets the newest arguments, and waits anew, until it has started.
    Debounce,
    /// The job that is there gets the newest arguments while it waits. After a running one, another one runs.
    Again,
}

impl Keeping {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Keep, Self::Replace, Self::Started, Self::Debounce, Self::Again];

    /// The beginning of its keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Replace => "replace",
            Self::Started => "started",
            Self::Debounce => "debounce",
            Self::Again => "again",
        }
    }

    /// Whether an enqueue changes the job that is there.
    pub const fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::Debounce | Self::Again)
    }

    fn rule(self) -> Unique {
        match self {
            Self::Keep => RULE,
            Self::Replace => RULE.on_conflict(OnConflict::Replace(Replace::new().args())),
            Self::Started => RULE.until(Until::Started),
            Self::Debounce => Unique::debounce(QUIET, MAX).by(&["key"]),
            Self::Again => RULE.on_conflict(OnConflict::RunAgain),
        }
    }
}

/// A key of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkKey {
    /// The place of the rule in [`Keeping::ALL`].
    pub rule: usize,
    /// Which key of this rule.
    pub number: i64,
}

impl WorkKey {
    /// The rule.
    pub const fn keeping(self) -> Keeping {
        Keeping::ALL[self.rule]
    }

    /// Returns a job with this key. `version` is a number that no other enqueue has.
    pub fn job(self, version: i64) -> Result<NewJob, InvalidJob> {
        let key = format!("{} {}", self.keeping().name(), self.number);
        // A debounced job does not fail. So its time is never that of a retry.
        let fails = version % 5 == 0 && self.keeping() != Keeping::Debounce;
        // While a job that runs again runs, others must have the time to enqueue the next one.
        let millis = if self.keeping() == Keeping::Again { 200 } else { 0 } + version.unsigned_abs() % 40;
        let mut job = Keyed { key, version, millis, fails }.unique(self.keeping().rule()).into_new_job()?;
        if matches!(self.keeping(), Keeping::Replace | Keeping::Started) {
            job.run_at = RunAt::After(WAIT);
        }
        Ok(job)
    }
}

/// Records its version as its number.
#[job(backoff = "fixed(20ms)")]
pub async fn keyed(
    key: String,
    version: i64,
    millis: u64,
    fails: bool,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    drop(key);
    recorder.say(ctx, version, What::Start).await?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    if fails && ctx.attempt() == 1 {
        recorder.say(ctx, version, What::Fail).await?;
        bail!("planned");
    }
    recorder.say(ctx, version, What::Ok).await
}
