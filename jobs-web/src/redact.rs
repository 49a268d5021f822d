//! What of a job's data a page shows.

use diesel_jobs_core::secrets::redacted;
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

/// Removes what must not be shown: always the secret arguments of kinds that this program knows, then what the application says.
pub(crate) struct Redactor {
    registry: Registry,
    callback: Option<Callback>,
}

impl Redactor {
    pub(crate) fn new() -> Self {
        Self { registry: Registry::linked(), callback: None }
    }

    pub(crate) fn with_registry(&mut self, registry: Registry) {
        self.registry = registry;
    }

    pub(crate) fn with_callback(&mut self, callback: Callback) {
        self.callback = Some(callback);
    }

    /// Whether this program has a handler of the kind.
    pub(crate) fn knows(&self, kind: &str) -> bool {
        self.registry.get(kind).is_some()
    }

    /// The options of the kind, if this program has a handler of it.
    pub(crate) fn options(&self, kind: &str) -> Option<JobOptions> {
        self.registry.get(kind).map(|registration| registration.options)
    }

    /// The secret argument of some kind that a filter asks for. To search for a value would show it.
    pub(crate) fn searched_secret<'a>(&self, filter: &'a JobFilter) -> Option<&'a str> {
        let is_secret = |name: &str| self.registry.iter().any(|kind| kind.options.secrets.contains(&name));
        filter.args.iter().filter_map(|arg| arg.path.first()).map(String::as_str).find(|name| is_secret(name))
    }

    /// What may be shown.
    pub(crate) fn shown(&self, subject: Subject<'_>, part: Part, text: &str) -> String {
        let text = match part {
            Part::Arguments => {
                let secrets = self.registry.get(subject.kind).map_or(&[][..], |kind| kind.options.secrets);
                redacted(text, secrets)
            }
            _ => text.to_owned(),
        };
        match &self.callback {
            Some(callback) => callback(subject, part, text),
            None => text,
        }
    }
}
