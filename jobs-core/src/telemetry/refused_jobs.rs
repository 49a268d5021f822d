//! The warning of jobs that the database refuses to end or to rescue.

use super::RateLimitedWarning;

/// Reports them, if there are any.
pub(crate) fn refused_jobs(jobs: &[String], warning: &RateLimitedWarning) {
    if let Some(problem) = problem(jobs) {
        warning.report(&problem);
    }
}

/// What the log says of them.
fn problem(refused: &[String]) -> Option<String> {
    let (first, others) = refused.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        number => format!("; the database has refused {number} more"),
    };
    Some(format!(
        "{first}{others}. Remove the cause, such as a trigger of the application: `worker doctor` names the jobs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_id::JobId;
    use crate::storage::{Ends, Rescued};

    #[test]
    fn the_log_names_a_job_that_does_not_end() {
        let mut ends = Ends::default();
        assert_eq!(problem(&ends.refused), None);
        ends.refuse(JobId(7), "import", "slow", "not now");
        let one = "job 7 of kind `import` in queue `slow` did not end: not now. Remove the cause, such as a trigger of the application: \
                   `worker doctor` names the jobs";
        assert_eq!(problem(&ends.refused).as_deref(), Some(one));
        ends.refuse(JobId(8), "import", "slow", "not now");
        let two = problem(&ends.refused).unwrap();
        assert!(two.contains("not now; the database has refused 1 more. Remove"), "{two}");
    }

    #[test]
    fn the_log_names_a_job_that_is_not_rescued() {
        let mut rescued = Rescued::default();
        rescued.refuse(JobId(7), "import", "slow", "not now");
        let text =
            "job 7 of kind `import` in queue `slow`, whose worker died, was not rescued: not now. Remove the cause";
        assert!(problem(&rescued.refused).is_some_and(|problem| problem.starts_with(text)));
    }
}
