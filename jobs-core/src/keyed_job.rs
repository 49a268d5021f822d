//! What an enqueue adds to a job when its arguments are known.

use crate::job_options::JobOptions;
use crate::new_job::{IntoNewJob as _, InvalidJob, NewJob};
use crate::rules::{OwnRule, Rules};
use crate::unique::Unique;

/// The job with the rules and the unique key that its arguments make.
pub(crate) fn keyed(
    mut job: NewJob,
    options: &JobOptions,
    rules: &[OwnRule],
    unique: Option<&Unique>,
) -> Result<NewJob, InvalidJob> {
    if let Some(rule) = unique {
        let name = options.key_name(job.kind.clone());
        job = job.unique_under(name, *rule)?;
    }
    // Those of the enqueue replace those of the kind of the same sort.
    let of_kind = options.rules.iter().filter(|of_kind| !rules.iter().any(|own| own.is_same_sort(of_kind)));
    if rules.is_empty() && of_kind.clone().next().is_none() {
        return job.into_new_job();
    }
    job.refuse_two_limits(job.runs_again())?;
    job.refuse_deep_args()?;
    let all = Rules::of(of_kind.map(|rule| rule.of(&job.args)).chain(rules.iter().cloned().map(OwnRule::of)));
    job.rules = all.map_err(|problem| InvalidJob::Limit { kind: job.kind.to_string(), problem })?;
    job.into_new_job()
}
