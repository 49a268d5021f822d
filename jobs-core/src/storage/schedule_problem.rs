//! What is wrong with a schedule that an operator writes. It is checked before anything is sent to the database.

use std::fmt;

use super::runtime_settings::check_name;
use super::schedule_settings::{NewSchedule, ScheduleChange, ScheduleRecord};
use crate::job_options::JobOptions;
use crate::json_depth::{MAX_DEPTH, is_too_deep};
use crate::new_job::{InvalidJob, RunAt};
use crate::schedule::{InvalidSchedule, Schedule};

/// What is wrong with a schedule, and in which of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleProblem {
    /// The part: `name`, `kind`, `cron`, `timezone`, `catch_up`, `args`, `queue` or `max_attempts`.
    pub part: &'static str,
    /// What is wrong, and what is allowed.
    pub text: String,
}

impl fmt::Display for ScheduleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ScheduleProblem {
    fn new(part: &'static str, text: impl ToString) -> Self {
        Self { part, text: text.to_string() }
    }
}

impl From<InvalidSchedule> for ScheduleProblem {
    fn from(problem: InvalidSchedule) -> Self {
        let part = match problem {
            InvalidSchedule::Timezone(_) => "timezone",
            InvalidSchedule::CatchUp(_) => "catch_up",
            InvalidSchedule::Expression { .. } | InvalidSchedule::Interval(_) | InvalidSchedule::NeverFires(_) => {
                "cron"
            }
        };
        Self::new(part, problem)
    }
}

impl From<InvalidJob> for ScheduleProblem {
    fn from(problem: InvalidJob) -> Self {
        let part = match &problem {
            InvalidJob::Name { what: "queue", .. } => "queue",
            InvalidJob::MaxAttempts { .. } => "max_attempts",
            InvalidJob::TooLarge { .. } | InvalidJob::TooDeep { .. } => "args",
            _ => "kind",
        };
        Self::new(part, problem)
    }
}

impl NewSchedule {
    /// Fails unless the schedule has a name and ticks, and its jobs can be enqueued. `options` are those of the kind,
    /// if the program knows it.
    pub fn validate(&self, options: &JobOptions) -> Result<(), ScheduleProblem> {
        check_name("schedule", &self.name).map_err(|problem| ScheduleProblem::new("name", problem))?;
        Schedule::parse(&self.expression, &self.timezone)?;
        if let Some(args) = &self.job.args {
            if is_too_deep(args.as_bytes()) {
                let text =
                    format!("the arguments of schedule `{}` are nested more than {MAX_DEPTH} levels deep", self.name);
                return Err(ScheduleProblem::new("args", text));
            }
            let value: serde_json::Value = serde_json::from_str(args).map_err(|error| {
                ScheduleProblem::new("args", format!("the arguments of schedule `{}` are not JSON: {error}", self.name))
            })?;
            if !value.is_object() {
                let text = format!(
                    "the arguments of schedule `{}` must be a JSON object, such as {{\"user_id\": 7}}",
                    self.name
                );
                return Err(ScheduleProblem::new("args", text));
            }
        }
        if self.job.max_attempts.is_some_and(|most| !(1..=32_767).contains(&most)) {
            let text = format!("max_attempts of schedule `{}` must be from 1 to 32767", self.name);
            return Err(ScheduleProblem::new("max_attempts", text));
        }
        if options.in_sequence() {
            let text = format!(
                "the jobs of kind `{}` are a sequence, so a schedule cannot enqueue them: a discarded job would halt it, and the jobs of all later \
                 ticks would wait; schedule a kind with `concurrency(limit = 1)` instead, or one whose handler enqueues the jobs of the sequence",
                self.kind
            );
            return Err(ScheduleProblem::new("kind", text));
        }
        Ok(self.job.at(&self.kind, options, RunAt::Now).validate()?)
    }
}

impl ScheduleChange {
    /// Fails unless the schedule that it changes has ticks afterwards.
    pub fn validate(&self, stored: &ScheduleRecord) -> Result<(), ScheduleProblem> {
        let expression = self.expression.as_deref().unwrap_or(&stored.expression);
        let timezone = self.timezone.as_deref().unwrap_or(&stored.timezone);
        Schedule::parse(expression, timezone)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::CatchUp;
    use crate::storage::ScheduledJob;
    use crate::{KindRule, OnConflict, OnDiscard, Unique};

    fn nightly() -> NewSchedule {
        NewSchedule {
            name: "nightly".to_owned(),
            kind: "report".to_owned(),
            expression: "0 2 * * *".to_owned(),
            timezone: "UTC".to_owned(),
            catch_up: CatchUp::Skip,
            job: ScheduledJob::default(),
        }
    }

    #[test]
    fn a_problem_names_the_part_that_has_it() {
        assert_eq!(nightly().validate(&JobOptions::new()), Ok(()));
        let with = |change: fn(&mut NewSchedule)| {
            let mut schedule = nightly();
            change(&mut schedule);
            schedule.validate(&JobOptions::new()).unwrap_err()
        };
        assert_eq!(with(|it| it.name.clear()).part, "name");
        assert_eq!(with(|it| it.kind.clear()).part, "kind");
        assert_eq!(with(|it| it.expression = "every hour".to_owned()).part, "cron");
        assert_eq!(with(|it| it.expression = "0 0 30 2 *".to_owned()).part, "cron");
        assert_eq!(with(|it| it.timezone = "Paris".to_owned()).part, "timezone");
        assert_eq!(with(|it| it.job.args = Some("[1]".to_owned())).part, "args");
        assert_eq!(with(|it| it.job.args = Some("{".to_owned())).part, "args");
        assert_eq!(with(|it| it.job.max_attempts = Some(0)).part, "max_attempts");
        assert_eq!(with(|it| it.job.queue = Some("x".repeat(201))).part, "queue");
    }

    #[test]
    fn a_kind_in_a_sequence_has_no_schedule() {
        const LIMIT: KindRule = KindRule::concurrency("account", 2);
        const SEQUENCE: KindRule = KindRule::sequence("orders", OnDiscard::Skip);
        for options in [JobOptions::new().rules(&[SEQUENCE]), JobOptions::new().rules(&[LIMIT, SEQUENCE])] {
            let problem = nightly().validate(&options).unwrap_err();
            assert_eq!(problem.part, "kind");
            assert!(problem.text.starts_with("the jobs of kind `report` are a sequence"), "{problem}");
        }
        // A job that runs again is in a sequence with itself alone, which never halts.
        let again = Unique::new().on_conflict(OnConflict::RunAgain);
        for options in [JobOptions::new().rules(&[LIMIT]), JobOptions::new().unique(again)] {
            assert_eq!(nightly().validate(&options), Ok(()));
        }
    }
}
