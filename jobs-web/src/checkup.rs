//! The newest examination of the database by the doctor. All its checks take longer than a page may, so they are made in the
//! background, one examination at a time, and pages show the newest result with its age.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::{Finding, Objectives, Operator, Severity};
use tokio::sync::Notify;

use crate::format::counted;

/// How long an examination may take. One check may take a minute.
const LIMIT: Duration = Duration::from_secs(300);
/// After a failure it is tried again this soon.
const AFTER_FAILURE: TimeDelta = TimeDelta::seconds(10);

/// What an examination has found.
#[derive(Clone, Debug)]
pub(crate) struct Checkup {
    pub(crate) at: DateTime<Utc>,
    /// The findings, errors first, or why there are none.
    pub(crate) found: Result<Vec<Finding>, String>,
}

impl Checkup {
    /// The errors and warnings.
    pub(crate) fn serious(&self) -> impl Iterator<Item = &Finding> {
        self.found.iter().flatten().filter(|finding| finding.severity != Severity::Skipped)
    }

    /// What was found, in one line. `None`: neither errors nor warnings.
    pub(crate) fn heading(&self) -> Option<String> {
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        let (errors_text, warnings_text) =
            (counted(errors, "error", "errors"), counted(warnings, "warning", "warnings"));
        match (errors, warnings) {
            (0, 0) => None,
            (_, 0) => Some(format!("The doctor found {errors_text}")),
            (0, _) => Some(format!("The doctor found {warnings_text}")),
            _ => Some(format!("The doctor found {errors_text} and {warnings_text}")),
        }
    }

    /// How many findings are as bad as this.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.found.iter().flatten().filter(|finding| finding.severity == severity).count()
    }
}

/// The examinations of one database.
#[derive(Default)]
pub(crate) struct Checkups(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    last: Option<Checkup>,
    is_running: bool,
}

/// An examination under way. It ends when this is dropped, also after a panic.
struct Run(Arc<Shared>);

impl Shared {
    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.state(|state| state.is_running = false);
        self.0.ended.notify_waiters();
    }
}

impl Checkups {
    /// The newest result, and whether a newer one is under way.
    pub(crate) fn newest(&self) -> (Option<Checkup>, bool) {
        self.0.state(|state| (state.last.clone(), state.is_running))
    }

    /// Begins an examination in the background, if none is under way and the newest result is older than `age`.
    pub(crate) fn refresh(&self, operator: &Arc<dyn Operator>, age: TimeDelta) {
        let begins = self.0.state(|state| {
            let is_old = state.last.as_ref().is_none_or(|last| {
                let age = if last.found.is_err() { age.min(AFTER_FAILURE) } else { age };
                Utc::now() - last.at >= age
            });
            let begins = is_old && !state.is_running;
            state.is_running |= begins;
            begins
        });
        if !begins {
            return;
        }
        let (run, operator) = (Run(Arc::clone(&self.0)), Arc::clone(operator));
        tokio::spawn(async move {
            let found = match tokio::time::timeout(LIMIT, operator.examine(Objectives::default())).await {
                Ok(found) => found.map_err(|problem| problem.to_string()),
                Err(_) => Err(format!("the examination took longer than {} s, and was given up", LIMIT.as_secs())),
            };
            run.0.state(|state| state.last = Some(Checkup { at: Utc::now(), found }));
        });
    }

    /// Waits until no examination is under way, at most for so long.
    pub(crate) async fn ended(&self, limit: Duration) {
        let mut ended = pin!(self.0.ended.notified());
        ended.as_mut().enable();
        if self.0.state(|state| state.is_running) {
            // If the time is over, the page says that it is under way.
            let _ = tokio::time::timeout(limit, ended).await;
        }
    }
}
