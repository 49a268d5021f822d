//! The scheduler: enqueues the due ticks of cron schedules. Any number of workers may run it: a tick belongs to the
//! one whose guarded update of `last_tick` finds the row as it read it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::crash_point::crash_point;
use crate::handler::Registration;
use crate::new_job::{NewJob, RunAt};
use crate::schedule::Schedule;
use crate::storage::{DeclaredSchedule, StorageResult, StoredSchedule};
use crate::telemetry::{self, Trouble};
use crate::worker::Shared;

/// Schedules may change at run time: they are read again at least this often,
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// and where there was none so far, this often.
const LONGEST_SLEEP_WITHOUT: Duration = Duration::from_secs(60);
/// After the instant of a tick, so that the database's clock has surely passed it.
const MARGIN: Duration = Duration::from_millis(5);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("schedule");
    let mut declared = false;
    loop {
        let looked = async {
            if !declared {
                declare(&shared).await?;
                declared = true;
            }
            look(&shared).await
        };
        let sleep = looked.await.unwrap_or_else(|problem| {
            trouble.report(&problem);
            LONGEST_SLEEP
        });
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            // What comes due from now on is for workers that go on, or is missed: nobody here would run it.
            () = shared.phases.draining().cancelled() => return,
            () = stop.cancelled() => return,
        }
    }
}

/// Stores what the code declares; a kind of this program that has no schedule any more loses its row.
async fn declare(shared: &Shared) -> StorageResult<()> {
    let (mut declared, mut gone) = (Vec::new(), Vec::new());
    for registration in shared.registry.iter() {
        match registration.schedule {
            Some(spec) => declared.push(DeclaredSchedule {
                name: registration.kind.to_owned(),
                expression: spec.expression.to_owned(),
                timezone: spec.timezone.to_owned(),
                catch_up: spec.catch_up,
            }),
            None => gone.push(registration.kind.to_owned()),
        }
    }
    shared.storage.declare_schedules(&declared, &gone).await
}

/// Enqueues what is due; returns how long nothing will be.
async fn look(shared: &Shared) -> StorageResult<Duration> {
    let (schedules, now) = shared.storage.schedules().await?;
    let mut sleep = if schedules.is_empty() { LONGEST_SLEEP_WITHOUT } else { LONGEST_SLEEP };
    for stored in schedules.iter().filter(|stored| !stored.paused) {
        // A kind of another program's is that program's to run.
        let Some(registration) = shared.registry.get(&stored.kind) else { continue };
        let schedule = match Schedule::parse(&stored.expression, &stored.timezone) {
            Ok(schedule) => schedule,
            Err(problem) => {
                telemetry::schedule_unusable(&stored.name, &problem);
                continue;
            }
        };
        tick(shared, registration, stored, &schedule, now).await?;
        if let Some(next) = schedule.next_after(now) {
            sleep = sleep.min((next - now).to_std().unwrap_or_default() + MARGIN);
        }
    }
    Ok(sleep)
}

async fn tick(
    shared: &Shared,
    registration: &Registration,
    stored: &StoredSchedule,
    schedule: &Schedule,
    now: DateTime<Utc>,
) -> StorageResult<()> {
    let due = schedule.due(stored.last_tick, now, stored.catch_up);
    if due.ticks.is_empty() {
        return Ok(());
    }
    let jobs: Vec<NewJob> = due.ticks.iter().map(|tick| job(registration, *tick)).collect();
    crash_point("tick");
    if shared.storage.tick(stored, due.last_tick, &jobs).await? {
        crash_point("ticked");
        telemetry::ticked(&stored.name, jobs.len());
        shared.wake.notify_one();
    }
    Ok(())
}

/// The job of one tick: no arguments, the kind's defaults.
fn job(registration: &Registration, tick: DateTime<Utc>) -> NewJob {
    let mut job = NewJob::raw(registration.kind, "{}");
    job.queue = registration.options.queue.into();
    job.priority = registration.options.priority;
    job.max_attempts = registration.options.max_attempts;
    job.run_at = RunAt::At(tick);
    job
}
