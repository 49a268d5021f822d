//! Which data of a job a page shows.

use diesel_jobs_core::secrets::{all_redacted, redacted};
use diesel_jobs_core::storage::JobFilter;
use diesel_jobs_core::{JobId, JobOptions, Registry};

/// Which data of a job is about to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The arguments, as JSON text.
    Arguments,
    /// The output, as JSON text.
    Output,
    /// The text of a failure, or its backtrace. The worker has removed the values of secret arguments from it.
    Failure,
    /// What the handler says about its progress.
    Progress,
}

/// A job whose data is about to be shown.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: &'a str,
    /// Its queue.
    pub queue: &'a str,
}

/// The application's callback. It returns the text that is shown.
type Callback = Box<dyn Fn(Subject<'_>, Part, String) -> String + Send + Sync>;

/// Removes what must not be shown: secret arguments, the arguments of kinds that this program does not know, then what
/// the application says.
pub(crate) struct Redactor {
    registry: Registry,
    /// Whether arguments of kinds that this program does not know are shown.
    shows_unknown: bool,
    callback: Option<Callback>,
}

impl Redactor {
    pub(crate) fn new() -> Self {
        Self { registry: Registry::linked(), shows_unknown: false, callback: None }
    }

    pub(crate) fn with_registry(&mut self, registry: Registry) {
        self.registry = registry;
    }

    pub(crate) fn show_unknown(&mut self) {
        self.shows_unknown = true;
    }

    pub(crate) fn with_callback(&mut self, callback: Callback) {
        self.callback = Some(callback);
    }

    /// The note about the arguments of this kind, if they are hidden.
    pub(crate) fn note(&self, kind: &str) -> Option<&'static str> {
        match (self.registry.get(kind), self.shows_unknown) {
            (Some(_), _) => None,
            (None, true) => Some(
                "This program has no job of this kind, so it does not know which arguments are secret, and shows all.",
            ),
            (None, false) => Some(
                "This program has no job of this kind, so it does not know which arguments are secret, and hides all.",
            ),
        }
    }

    /// Whether the arguments of this kind are hidden as a whole.
    pub(crate) fn hides_all(&self, kind: &str) -> bool {
        !self.shows_unknown && self.registry.get(kind).is_none()
    }

    /// The options of the kind, if this program has a handler of it.
    pub(crate) fn options(&self, kind: &str) -> Option<JobOptions> {
        self.registry.get(kind).map(|registration| registration.options)
    }

    /// The names under which jobs of the kind are stored, the present one first.
    pub(crate) fn names<'a>(&self, kind: &'a str) -> Vec<&'a str> {
        self.registry.names(kind)
    }

    /// The present name of a kind that is stored under this one.
    pub(crate) fn present_name<'a>(&self, kind: &'a str) -> &'a str {
        self.registry.present_name(kind)
    }

    /// Returns the filter with all names of its kinds, unless a user could guess hidden values with it. Then returns
    /// why it is refused.
    pub(crate) fn searchable(&self, filter: &JobFilter) -> Result<JobFilter, String> {
        self.registry.searchable(filter, self.shows_unknown)
    }

    /// What may be shown.
    pub(crate) fn shown(&self, subject: Subject<'_>, part: Part, text: &str) -> String {
        let text = match part {
            Part::Arguments => match self.registry.get(subject.kind) {
                Some(kind) => redacted(text, kind.options.secrets),
                None if self.shows_unknown => text.to_owned(),
                None => all_redacted(text),
            },
            _ => text.to_owned(),
        };
        match &self.callback {
            Some(callback) => callback(subject, part, text),
            None => text,
        }
    }
}
