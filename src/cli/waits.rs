//! Whether jobs that go to a queue would wait there: nobody serves it, or it or their kind is paused. Its name may be
//! wrong.

use diesel_jobs_core::shell::{argument, serving};
use diesel_jobs_core::storage::{Operator, unserved};

use super::exit::CliError;
use super::output;

/// The warning. `kind` is the one of all these jobs. `jobs` is who waits, with the verb: `the job waits`.
pub(super) async fn warning(
    operator: &dyn Operator,
    queue: &str,
    kind: Option<&str>,
    jobs: &str,
) -> Result<Option<String>, CliError> {
    let text = if let Some(problem) = unserved(queue, &operator.workers().await?) {
        format!("{problem}; {jobs} until a worker does: `worker run {}`", serving(queue))
    } else if let Some(pause) =
        operator.queues().await?.into_iter().find(|of| of.name == queue).and_then(|of| of.paused)
    {
        format!("queue `{queue}` is {pause}; {jobs} until `worker queues resume {}`", argument(queue))
    } else if let Some(kind) = kind
        && let Some(pause) = operator.kinds().await?.into_iter().find(|of| of.name == kind).and_then(|of| of.paused)
    {
        format!("kind `{kind}` is {pause}; {jobs} until `worker kinds resume {}`", argument(kind))
    } else {
        return Ok(None);
    };
    Ok(Some(output::printable(&format!("warning: {text}"))))
}
