//! What an operator may store as a schedule. Checked before anything is sent to the database.

use diesel_jobs_core::storage::{NewSchedule, ScheduleChange, ScheduleRecord, StorageResult};
use diesel_jobs_core::{JobOptions, NewJob, StorageError};

/// The most jobs that are enqueued at once for a schedule.
pub(crate) const MOST_JOBS: usize = 10_000;

fn config(problem: impl ToString) -> StorageError {
    StorageError::Config(problem.to_string())
}

/// Fails unless the schedule has ticks, and its jobs can be enqueued.
pub(crate) fn check_new(new: &NewSchedule) -> StorageResult<()> {
    // Whoever knows the kind has checked it with its options.
    new.validate(&JobOptions::new()).map_err(config)
}

/// Fails unless the changed schedule has ticks.
pub(crate) fn check_new_times(schedules: &[ScheduleRecord], name: &str, change: &ScheduleChange) -> StorageResult<()> {
    // If there is no such schedule, the change itself finds that out.
    let Some(stored) = schedules.iter().find(|schedule| schedule.name == name) else { return Ok(()) };
    change.validate(stored).map_err(config)
}

/// Fails unless these jobs can be enqueued together.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> StorageResult<()> {
    if jobs.len() > MOST_JOBS {
        let number = jobs.len();
        return Err(config(format!("{number} jobs are too many for one command: enqueue at most {MOST_JOBS} at once")));
    }
    jobs.iter().try_for_each(|job| job.validate().map_err(config))
}
