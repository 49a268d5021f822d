//! Schedules: cron expressions in a time zone, and the schedules that operators add or change while workers run.
//! `#[job(cron = "0 3 * * *", timezone = "Europe/Berlin")]` needs nothing from this module.
//!
//! ```
//! use chrono::{TimeZone, Utc};
//! use diesel_jobs::schedule::Schedule;
//!
//! let every_night = Schedule::parse("0 3 * * *", "Europe/Berlin")?;
//! let noon = Utc.with_ymd_and_hms(2026, 1, 31, 12, 0, 0).unwrap();
//! assert_eq!(every_night.next_after(noon), Some(Utc.with_ymd_and_hms(2026, 2, 1, 2, 0, 0).unwrap()));
//! # Ok::<_, diesel_jobs::schedule::InvalidSchedule>(())
//! ```
//!
//! To add a schedule at run time, pass a [`NewSchedule`] to [`ScheduleSettings::add_schedule`], a method of
//! [`Database::operator`](crate::Database).

pub use diesel_jobs_core::storage::{
    Declarations, DeclaredSchedule, LastRun, NewSchedule, ScheduleChange, ScheduleProblem, ScheduleRecord,
    ScheduleSettings, Scheduled, ScheduledJob,
};
pub use diesel_jobs_core::{CatchUp, Due, InvalidSchedule, Schedule};
