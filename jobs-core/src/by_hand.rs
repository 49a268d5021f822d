//! Jobs whose arguments somebody has written by hand. They are checked as their handler would read them.

use crate::handler::Registration;
use crate::keyed_job::keyed;
use crate::new_job::NewJob;
use crate::panics;
use crate::testing::TestContext;
use crate::undecodable::Unfit;

impl Registration {
    /// A job of this kind with these arguments, which are JSON text. `change` sets what differs from the options of the
    /// kind. Then the rules and the unique key of the kind are made of the arguments.
    ///
    /// Fails if the handler could not read the arguments, with a text that names the argument and not its value.
    pub fn job_by_hand(&self, args: &str, change: impl FnOnce(&mut NewJob)) -> Result<NewJob, String> {
        let context = TestContext::new(self.kind).args(args.as_bytes().to_vec()).build();
        // The upgrade of arguments of an earlier version is code of the application.
        panics::caught_call(|| (self.decodes)(&context)).and_then(|decoded| decoded).map_err(|problem| {
            problem.cause::<Unfit>().map_or_else(|| problem.to_string(), |unfit| unfit.mismatch.clone())
        })?;
        let options = &self.options;
        let mut job = NewJob::raw(self.kind, args);
        job.queue = options.queue.into();
        job.priority = options.priority;
        job.max_attempts = options.max_attempts;
        job.expires = options.expires;
        change(&mut job);
        keyed(job, options, &[], options.unique.as_ref()).map_err(|problem| problem.to_string())
    }
}
