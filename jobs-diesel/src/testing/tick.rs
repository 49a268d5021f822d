//! `tick`: calls the handler of a job with a schedule as at one of its ticks.

use diesel_jobs_core::testing::tick as time_of;
use diesel_jobs_core::{IntoNewJob, Registered};

use super::perform::{Perform, perform};

/// Calls the handler of a job with `cron` or `every` at a tick of its schedule, as [`perform`] does: `ctx.run_at()` and
/// `ctx.now()` return the time of the tick. Write this time as `"2026-03-01 02:00"`, with seconds if needed, in the
/// time zone of the schedule, or as `"2026-03-01T02:00:00Z"`.
///
/// Panics if the schedule has no tick at this time, so a test with `tick` also checks the cron expression. To run the
/// handler at any other time, use [`Perform::run_at`].
#[track_caller]
pub fn tick<J: Registered + IntoNewJob>(job: J, at: &str) -> Perform<J> {
    match time_of(&J::REGISTRATION, at) {
        Ok(at) => perform(job).run_at(at).now(at),
        // A test with a mistake.
        #[allow(clippy::panic)]
        Err(problem) => panic!("{problem}"),
    }
}
