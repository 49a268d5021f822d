//! What all pages share.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{Failures, JobFilter, Operator, ScheduleRecord, StorageResult};
use diesel_jobs_core::{Installation, JobRecord};
use diesel_jobs_storage::Database;

use crate::assets;
use crate::background::Background;
use crate::doctor_report::DoctorReports;
use crate::history::Charts;
use crate::known::Known;
use crate::link::Base;
use crate::redact::{Part, Redactor, Subject};
use crate::sample::Sample;

/// After this time the server is asked again, in the background, whether a setting makes transactions read-only,
const ASKED_AFTER: Duration = Duration::from_secs(10);
/// and an answer that is older is not used.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// Names are read again in the background after the first time, and none are suggested that are older than the second.
const KNOWN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));

pub(crate) struct Site {
    database: Database,
    pub(crate) base: Base,
    pub(crate) title: String,
    pub(crate) redactor: Redactor,
    pub(crate) doctor_reports: DoctorReports,
    pub(crate) charts: Charts,
    /// The schedules, for the overview.
    pub(crate) schedules: Background<(), Arc<Vec<ScheduleRecord>>>,
    /// The newest failures, for the overview.
    pub(crate) failures: Background<(), Arc<Failures>>,
    /// The names that fields suggest.
    known: Background<(), Arc<Known>>,
    /// The names of style sheet, script and icon.
    pub(crate) assets: [String; 3],
    /// The newest sample that was shown, for when the database cannot be reached.
    last: Background<(), Sample>,
    /// Whether a setting makes transactions read-only.
    read_only: Background<(), bool>,
}

impl Site {
    pub(crate) fn new(database: Database, base: Base, title: String, redactor: Redactor) -> Self {
        Self {
            database,
            base,
            title,
            redactor,
            doctor_reports: DoctorReports::default(),
            charts: Charts::default(),
            schedules: Background::default(),
            failures: Background::default(),
            known: Background::default(),
            assets: assets::names(),
            last: Background::default(),
            read_only: Background::default(),
        }
    }

    pub(crate) fn operator(&self) -> &dyn Operator {
        &*self.database.operator
    }

    /// For work that continues after a page was answered.
    pub(crate) fn shared_operator(&self) -> &Arc<dyn Operator> {
        &self.database.operator
    }

    /// Fails if the database cannot be reached, or if its schema is another one.
    pub(crate) async fn installation(&self) -> StorageResult<Installation> {
        let mut installation = self.database.storage.check_schema().await?;
        let operator = Arc::clone(&self.database.operator);
        let asked = async move { operator.is_read_only_by_default().await };
        installation.read_only |= self.read_only.recent((), (ASKED_AFTER, ASKED_WITHIN), asked).await?;
        Ok(installation)
    }

    /// Returns the filter with all names of its kinds, unless a user could guess hidden values with it. Then returns
    /// why it is refused, as a sentence.
    pub(crate) fn searchable(&self, filter: &JobFilter) -> Result<JobFilter, String> {
        self.redactor.searchable(filter).map_err(|problem| format!("{problem}."))
    }

    /// What may be shown of a job's data.
    pub(crate) fn shown(&self, job: &JobRecord, part: Part, text: &str) -> String {
        self.redactor.shown(Subject { id: job.id, kind: &job.kind, queue: &job.queue }, part, text)
    }

    /// Removes the parts of the newest failure that must not be shown.
    pub(crate) fn redact_failure(&self, job: &mut JobRecord) {
        job.last_error = job.last_error.as_deref().map(|text| self.shown(job, Part::Failure, text));
    }

    /// The names that fields suggest, not much older than the page. None if they cannot be read.
    pub(crate) async fn known(&self) -> Arc<Known> {
        let operator = Arc::clone(&self.database.operator);
        let read = async move { Known::of(&*operator).await.map(Arc::new) };
        self.known.recent((), KNOWN, read).await.unwrap_or_default()
    }

    pub(crate) fn remember(&self, sample: &Sample) {
        self.last.keep((), sample.clone());
    }

    pub(crate) fn remembered(&self) -> Option<(DateTime<Utc>, Sample)> {
        self.last.newest(&()).0.map(|kept| (kept.at, kept.value))
    }
}
