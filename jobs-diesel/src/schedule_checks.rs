//! What an operator may store as a schedule. Checked before anything is sent to the database.

use diesel_jobs_core::storage::{NewSchedule, ScheduleChange, ScheduleRecord, StorageResult};
use diesel_jobs_core::{JobOptions, NewJob, RunAt, Schedule, StorageError};

/// The most jobs that are enqueued at once for a schedule.
pub(crate) const MOST_JOBS: usize = 10_000;

fn config(problem: impl ToString) -> StorageError {
    StorageError::Config(problem.to_string())
}

/// Fails unless the schedule has ticks, and its jobs can be enqueued.
pub(crate) fn check_new(new: &NewSchedule) -> StorageResult<()> {
    Schedule::parse(&new.expression, &new.timezone).map_err(config)?;
    if let Some(args) = &new.job.args {
        let value: serde_json::Value = serde_json::from_str(args)
            .map_err(|error| config(format!("the arguments of schedule `{}` are not JSON: {error}", new.name)))?;
        if !value.is_object() {
            return Err(config(format!(
                "the arguments of schedule `{}` must be a JSON object, such as {{\"user_id\": 7}}",
                new.name
            )));
        }
    }
    if new.job.max_attempts.is_some_and(|most| !(1..=32_767).contains(&most)) {
        return Err(config(format!("max_attempts of schedule `{}` must be from 1 to 32767", new.name)));
    }
    new.job.at(&new.kind, &JobOptions::new(), RunAt::Now).validate().map_err(config)
}

/// Fails unless the changed schedule has ticks.
pub(crate) fn check_new_times(schedules: &[ScheduleRecord], name: &str, change: &ScheduleChange) -> StorageResult<()> {
    // If there is no such schedule, the change itself finds that out.
    let Some(stored) = schedules.iter().find(|schedule| schedule.name == name) else { return Ok(()) };
    let expression = change.expression.as_deref().unwrap_or(&stored.expression);
    let timezone = change.timezone.as_deref().unwrap_or(&stored.timezone);
    Schedule::parse(expression, timezone).map(drop).map_err(config)
}

/// Fails unless these jobs can be enqueued together.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> StorageResult<()> {
    if jobs.len() > MOST_JOBS {
        let number = jobs.len();
        return Err(config(format!("{number} jobs are too many for one command: enqueue at most {MOST_JOBS} at once")));
    }
    jobs.iter().try_for_each(|job| job.validate().map_err(config))
}
