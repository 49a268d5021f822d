//! The schedules: their next ticks, and how the last job ended.

use askama::Template;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use diesel_jobs_core::Schedule;
use diesel_jobs_core::storage::ScheduleRecord;

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// This many ticks are shown.
const TICKS: usize = 5;

/// A schedule with its next ticks.
struct Planned {
    schedule: ScheduleRecord,
    /// Each tick, and how it is written in the zone of the schedule.
    ticks: Vec<(DateTime<Utc>, String)>,
    /// Why there are none, or why none comes for long.
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    shell: Shell,
    schedules: Vec<Planned>,
}

/// The next ticks, each with its text in the zone of the schedule.
fn ticks(schedule: &ScheduleRecord, now: DateTime<Utc>) -> Result<Vec<(DateTime<Utc>, String)>, String> {
    let parsed = Schedule::parse(&schedule.expression, &schedule.timezone).map_err(|problem| problem.to_string())?;
    let zone: Tz = schedule.timezone.parse().map_err(|_| format!("unknown time zone {:?}", schedule.timezone))?;
    let ticks = parsed.next_ticks(schedule.last_tick, now).take(TICKS);
    Ok(ticks.map(|tick| (tick, tick.with_timezone(&zone).format("%a %d %b, %H:%M:%S").to_string())).collect())
}

pub(crate) async fn schedules(visit: Visit) -> Page {
    let shell = visit.shell(Place::Schedules, "Schedules").await?.live("/schedules", &visit.query);
    let (records, now) = visit.site.operator().list_schedules().await?;
    let planned = records.into_iter().map(|schedule| match ticks(&schedule, now) {
        Ok(ticks) => Planned { ticks, problem: Schedule::stands_still(schedule.last_tick, now), schedule },
        Err(problem) => Planned { schedule, ticks: Vec::new(), problem: Some(problem) },
    });
    render(&SchedulesPage { shell, schedules: planned.collect() })
}
