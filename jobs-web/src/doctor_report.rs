//! The newest report of the doctor. All its checks take longer than a page may wait, so they run in the background, one
//! examination at a time. Pages show the newest report with its age.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{Finding, Objectives, Operator, Severity};

use crate::around::Around;
use crate::background::{Background, Kept};
use crate::format::counted;

/// How long an examination may take. One check may take a minute.
const LIMIT: Duration = Duration::from_secs(300);
/// After a failure it is tried again this soon.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What an examination has found.
#[derive(Clone, Debug)]
pub(crate) struct DoctorReport {
    pub(crate) at: DateTime<Utc>,
    /// The findings, errors first, or why there are none.
    pub(crate) found: Result<Vec<Finding>, String>,
    /// What the findings name.
    pub(crate) around: Arc<Around>,
}

impl DoctorReport {
    /// The errors and warnings.
    pub(crate) fn serious(&self) -> impl Iterator<Item = &Finding> {
        self.found.iter().flatten().filter(|finding| finding.severity != Severity::Skipped)
    }

    /// What was found, in one line. `None`: neither errors nor warnings.
    pub(crate) fn heading(&self) -> Option<String> {
        self.counted().map(|found| format!("The doctor found {found}"))
    }

    /// `1 error and 2 warnings`. `None`: neither.
    pub(crate) fn counted(&self) -> Option<String> {
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        let (errors_text, warnings_text) =
            (counted(errors, "error", "errors"), counted(warnings, "warning", "warnings"));
        match (errors, warnings) {
            (0, 0) => None,
            (_, 0) => Some(errors_text),
            (0, _) => Some(warnings_text),
            _ => Some(format!("{errors_text} and {warnings_text}")),
        }
    }

    /// How many findings have this severity.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.found.iter().flatten().filter(|finding| finding.severity == severity).count()
    }
}

/// The newest examination of the database.
pub(crate) type DoctorReports = Background<(), DoctorReport>;

impl DoctorReports {
    /// Begins an examination in the background, if none is under way and the newest result is older than `age`.
    pub(crate) fn begin(&self, operator: &Arc<dyn Operator>, age: Duration) {
        let is_fresh = |last: &Kept<DoctorReport>| {
            last.age() < if last.value.found.is_err() { age.min(AFTER_FAILURE) } else { age }
        };
        if self.newest(&()).0.as_ref().is_some_and(is_fresh) {
            return;
        }
        let operator = Arc::clone(operator);
        self.refresh((), async move {
            let found = match tokio::time::timeout(LIMIT, operator.examine(Objectives::default(), None)).await {
                Ok(found) => found.map_err(|problem| problem.to_string()),
                Err(_) => Err(format!("the checks took longer than {} s, and were given up", LIMIT.as_secs())),
            };
            let around =
                tokio::time::timeout(LIMIT, Around::of(&*operator, found.as_deref().unwrap_or_default())).await;
            // Without it the sentences have no links.
            let around = around.unwrap_or_else(|_| Ok(Around::default())).unwrap_or_default();
            Some(DoctorReport { at: Utc::now(), found, around: around.into() })
        });
    }

    /// The newest result, and whether a newer one is under way.
    pub(crate) fn last(&self) -> (Option<DoctorReport>, bool) {
        let (newest, is_running) = self.newest(&());
        (newest.map(|kept| kept.value), is_running)
    }
}
