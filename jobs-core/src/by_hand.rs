//! Jobs whose arguments somebody has written by hand. They are checked as their handler would read them. A handler
//! ignores arguments that it does not know, which an older or a newer program has written; here they are mistakes.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use crate::error::JobError;
use crate::handler::Registration;
use crate::keyed_job::keyed;
use crate::nearest::nearest;
use crate::new_job::NewJob;
use crate::panics;
use crate::testing::TestContext;
use crate::undecodable::Unfit;

impl Registration {
    /// A job of this kind with these arguments, which are JSON text. `change` sets what differs from the options of the
    /// kind. Then the rules and the unique key of the kind are made of the arguments.
    ///
    /// Fails if the handler could not read the arguments, or would ignore one, with a text that names the argument and
    /// not its value.
    pub fn job_by_hand(&self, args: &str, change: impl FnOnce(&mut NewJob)) -> Result<NewJob, String> {
        self.decoded(args).map_err(|problem| {
            problem.cause::<Unfit>().map_or_else(|| problem.to_string(), |unfit| unfit.mismatch.clone())
        })?;
        if let Some(problem) = self.ignored(args) {
            return Err(problem);
        }
        let options = &self.options;
        let mut job = NewJob::raw(self.kind, args);
        job.queue = options.queue.into();
        job.priority = options.priority;
        job.max_attempts = options.max_attempts;
        job.expires = options.expires;
        change(&mut job);
        keyed(job, options, &[], options.unique.as_ref()).map_err(|problem| problem.to_string())
    }

    fn decoded(&self, args: &str) -> Result<(), JobError> {
        let context = TestContext::new(self.kind).args(args.as_bytes().to_vec()).build();
        // The upgrade of arguments of an earlier version is code of the application.
        panics::caught_call(|| (self.decodes)(&context)).and_then(|decoded| decoded)
    }

    /// Says which argument the handler would ignore, if the kind says which ones it reads.
    fn ignored(&self, args: &str) -> Option<String> {
        // An empty text is no JSON. The error has the names, also if the arguments are of an earlier version.
        let names = self.decoded("").err()?.cause::<Unfit>()?.names?;
        let given: BTreeMap<String, IgnoredAny> = serde_json::from_str(args).ok()?;
        let ignored = given.into_keys().find(|name| !names.contains(&name.as_str()))?;
        let hint = match (nearest(&ignored, names.iter().copied()), names) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, []) => "it takes none".to_owned(),
            (None, names) => {
                format!("it takes {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        Some(format!("there is no argument `{ignored}` ({hint})"))
    }
}
