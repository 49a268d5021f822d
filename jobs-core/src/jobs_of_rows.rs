//! The jobs of the rows of a query: alike, except for their arguments.

use crate::job_options::JobOptions;
use crate::keyed_job::keyed;
use crate::new_job::{IntoNewJob as _, InvalidJob, NewJob};
use crate::unique::Unique;

/// What the jobs of a query's rows have in common. The statement that inserts them provides the arguments. If their
/// kind has rules or a key, or if their arguments may be nested too deeply, these are read first: see
/// [`need_more`](Self::need_more).
#[derive(Debug)]
pub struct JobsOfRows {
    job: NewJob,
    options: &'static JobOptions,
    unique: Option<Box<Unique>>,
    have_json: bool,
}

impl JobsOfRows {
    pub(crate) fn new(
        job: NewJob,
        options: &'static JobOptions,
        unique: Option<Box<Unique>>,
    ) -> Result<Self, InvalidJob> {
        Ok(Self { job: job.into_new_job()?, options, unique, have_json: false })
    }

    /// One of them, without its arguments, its rules and its unique key.
    pub fn common(&self) -> &NewJob {
        &self.job
    }

    pub(crate) fn common_mut(&mut self) -> &mut NewJob {
        &mut self.job
    }

    /// The same jobs. `have_json`: a column of the query is JSON, which may be nested to any depth.
    #[must_use]
    pub fn having_json(self, have_json: bool) -> Self {
        Self { have_json, ..self }
    }

    /// Whether each of them is more than a row in the queue: it has rules or a unique key, or it expires, or its
    /// arguments must be looked at.
    pub fn need_more(&self) -> bool {
        self.have_json || self.unique.is_some() || self.job.expires.is_some() || !self.options.rules.is_empty()
    }

    /// The jobs with these arguments, as JSON texts.
    pub fn with_args(&self, args: Vec<String>) -> Result<Vec<NewJob>, InvalidJob> {
        let job = |args| keyed(NewJob { args, ..self.job.clone() }, self.options, &[], self.unique.as_deref());
        args.into_iter().map(job).collect()
    }
}
