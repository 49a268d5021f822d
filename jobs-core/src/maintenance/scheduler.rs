//! The scheduler: enqueues the due ticks of cron schedules. Any number of workers may run it. The update of `last_tick`
//! is guarded: only the worker that finds the row as it read it enqueues the tick. A tick that fails is tried again,
//! and keeps no other schedule from ticking.
//!
//! If programs declare a schedule differently, the stored declaration stays while a live worker declares it so. Workers
//! with another one offer it at each check. So a restart of an old program turns nothing back, and after a deployment
//! or a rollback the program that remains wins. The same holds for the rules for discarded jobs. A declaration that the
//! database refuses is offered again, too, and holds up no other.
//!
//! A schedule ticks while there is a worker whose code declares it. No worker removes a row that its own code does not
//! declare. The row may belong to a newer version, or to an older one whose workers still run. So a schedule that was
//! removed from the code ends with the last worker that declares it, and `worker doctor` names the remaining row.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio_util::sync::CancellationToken;

use super::pause::Idle;
use crate::crash_point::crash_point;
use crate::handler::Registration;
use crate::new_job::{NewJob, RunAt};
use crate::recorder::Event;
use crate::schedule::{MAX_TICKS_PER_CHECK, Schedule};
use crate::storage::{DeclaredSchedule, StorageResult, StoredSchedule, StoredSchedules};
use crate::storage_error::StorageError;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::idleness::{Call, POLLS};
use crate::worker::shared::Shared;

/// Schedules may change at run time, so a worker that is not idle reads them again at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// The same, if there was no schedule so far.
const LONGEST_SLEEP_WITHOUT: Duration = Duration::from_secs(60);
/// How soon a row that another session has locked is tried again. That session may be a worker that ticks the row, and
/// dies.
const LOCKED: Duration = Duration::from_millis(500);
/// A margin after the instant of a tick, so that the database's clock has surely passed it.
const MARGIN: Duration = Duration::from_millis(5);

/// Claims may begin this long before the database's time. The jobs of older ticks are found by a rescan only.
const SEEN_BY_CLAIMS: TimeDelta = TimeDelta::milliseconds(50);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("schedule");
    let declared: Vec<DeclaredSchedule> = shared.registry.schedules().into_values().collect();
    let mut known = Known::default();
    loop {
        let since = shared.idleness.now();
        let ticked = tick_due_schedules(&shared, &declared, &mut known).await;
        let Sleep { until_tick, longest, is_incomplete, all_stand } = ticked.unwrap_or_else(|problem| {
            warning.report(&problem);
            Sleep { until_tick: LONGEST_SLEEP, longest: LONGEST_SLEEP, is_incomplete: true, all_stand: false }
        });
        if !is_incomplete || *shared.frozen.borrow() {
            shared.schedules_checked.cancel();
        }
        let ticked = Instant::now();
        let rules_stand = offer_rules(&shared, &mut known).await;
        let (all_stand, longest) = match rules_stand {
            true => (all_stand, longest),
            false => (false, LONGEST_SLEEP),
        };
        // A declaration that does not stand is offered again.
        let polls = if all_stand { POLLS } else { 1 };
        let idle = Idle { since, polls, calls: &[Call::Changes] };
        let until_read = async {
            tokio::time::sleep(longest).await;
            idle.wait(&shared).await;
        };
        tokio::select! {
            () = tokio::time::sleep(until_tick.saturating_sub(ticked.elapsed())) => {}
            () = until_read => {}
            // Ticks that become due from now on are for workers that continue, or are missed: this worker would not run
            // their jobs.
            () = shared.phases.draining().cancelled() => return,
            () = stop.cancelled() => return,
        }
    }
}

/// How long to wait, after all due ticks were enqueued.
struct Sleep {
    /// The time until the next tick.
    until_tick: Duration,
    /// When the schedules are read again, unless the worker is idle.
    longest: Duration,
    /// Perhaps not all due ticks were enqueued: one failed, another session has locked a row, or there are very many.
    is_incomplete: bool,
    /// All schedules are stored as this program declares them.
    all_stand: bool,
}

/// What the earlier looks at the schedules have brought.
#[derive(Default)]
struct Known {
    /// The schedules of this program are stored.
    is_declared: bool,
    /// These schedules have missed ticks, and it was said.
    have_missed: HashSet<String>,
    /// These schedules stand still, and it was said.
    stand_still: HashSet<String>,
    /// The warnings of what has failed for one schedule or kind, by the operation and its name.
    failures: HashMap<(&'static str, String), RateLimitedWarning>,
}

impl Known {
    fn failed(&mut self, operation: &'static str, what: &str, name: &str, problem: &StorageError) {
        let warning = self.failures.entry((operation, name.to_owned()));
        let warning = warning.or_insert_with(|| RateLimitedWarning::new(operation));
        warning.report(&format_args!("{what} `{name}`: {problem}"));
    }
}

/// Offers the rules for discarded jobs of this program, in case another one has stored or deleted some since. Returns
/// whether all are stored as this program declares them.
async fn offer_rules(shared: &Shared, known: &mut Known) -> bool {
    // The storage counts and logs an operation that fails as a whole.
    let Ok(declared) = shared.declare_rules().await else { return false };
    for (kind, problem) in &declared.refused {
        known.failed("declare_discard_rules", "`on_discarded` of job", kind, problem);
    }
    declared.all_stand()
}

/// The kind's registration, if this program may enqueue the ticks of this schedule. The schedule must be declared here,
/// added by an operator, or added to the table by hand under a name that is not its kind's.
fn ticks_here<'a>(shared: &'a Shared, stored: &StoredSchedule) -> Option<&'a Registration> {
    let registration = shared.registry.get(&stored.kind)?;
    (stored.is_added || stored.name != stored.kind || registration.schedule.is_some()).then_some(registration)
}

/// Enqueues all due ticks.
async fn tick_due_schedules(shared: &Shared, declared: &[DeclaredSchedule], known: &mut Known) -> StorageResult<Sleep> {
    let schedules = shared.storage.schedules(if known.is_declared { &[] } else { declared }).await?;
    let was_declared = known.is_declared;
    known.is_declared |= !schedules.is_locked;
    let sleep = tick_stored(shared, schedules, declared, known).await;
    if !was_declared || sleep.all_stand {
        return Ok(sleep);
    }
    // The row was removed although the code still declares the schedule, or other code has declared it otherwise. Then
    // it stays so while a live worker has that code. A change begins now, so what was due has been enqueued before.
    let schedules = shared.storage.schedules(declared).await?;
    known.is_declared = !schedules.is_locked;
    Ok(tick_stored(shared, schedules, declared, known).await)
}

/// The same for these schedules.
async fn tick_stored(
    shared: &Shared,
    schedules: StoredSchedules,
    declared: &[DeclaredSchedule],
    known: &mut Known,
) -> Sleep {
    let StoredSchedules { all, now, refused, .. } = schedules;
    for (name, problem) in &refused {
        known.failed("declare_schedules", "schedule", name, problem);
    }
    let stands = |one: &DeclaredSchedule| all.iter().any(|row| row.name == one.name && row.follows(one));
    let all_stand = declared.iter().all(stands);
    let longest = if all.is_empty() && all_stand { LONGEST_SLEEP_WITHOUT } else { LONGEST_SLEEP };
    let mut is_incomplete = !known.is_declared;
    let (mut has_failed, mut until_tick) = (false, Duration::MAX);
    for stored in all.iter().filter(|stored| !stored.paused) {
        let Some(registration) = ticks_here(shared, stored) else { continue };
        let schedule = match Schedule::parse(&stored.expression, &stored.timezone) {
            Ok(schedule) => schedule,
            Err(problem) => {
                telemetry::schedule_unusable(&stored.name, &problem);
                continue;
            }
        };
        match schedule.first_missed(stored.last_tick, now, stored.catch_up) {
            Some(first) if known.have_missed.insert(stored.name.clone()) => {
                telemetry::ticks_missed(&stored.name, first)
            }
            Some(_) => {}
            None => drop(known.have_missed.remove(&stored.name)),
        }
        match Schedule::stands_still(stored.last_tick, now) {
            Some(why) if known.stand_still.insert(stored.name.clone()) => {
                telemetry::schedule_stands_still(&stored.name, &why)
            }
            Some(_) => {}
            None => drop(known.stand_still.remove(&stored.name)),
        }
        match tick(shared, registration, stored, &schedule, now).await {
            Ok(is_done) => is_incomplete |= !is_done,
            Err(problem) => {
                known.failed("tick", "schedule", &stored.name, &problem);
                has_failed = true;
            }
        }
        if let Some(next) = schedule.next_ticks(stored.last_tick, now).next() {
            until_tick = until_tick.min((next - now).to_std().unwrap_or_default() + MARGIN);
        }
    }
    if is_incomplete {
        until_tick = until_tick.min(LOCKED);
    }
    if has_failed {
        until_tick = until_tick.min(LONGEST_SLEEP);
    }
    Sleep { until_tick, longest, is_incomplete: is_incomplete || has_failed, all_stand }
}

/// Returns `false` if ticks may still be due: another worker has handled some, another session has locked the row, or
/// there are more than one check enqueues.
async fn tick(
    shared: &Shared,
    registration: &Registration,
    stored: &StoredSchedule,
    schedule: &Schedule,
    now: DateTime<Utc>,
) -> StorageResult<bool> {
    let due = schedule.due(stored.last_tick, now, stored.catch_up);
    if due.ticks.is_empty() {
        return Ok(true);
    }
    let job = |tick: &_| stored.job.at(&stored.kind, &registration.options, RunAt::Exactly(*tick));
    let jobs: Vec<NewJob> = due.ticks.iter().map(job).collect();
    crash_point("tick");
    let has_ticked = shared.storage.tick(stored, due.last_tick, &jobs).await?;
    if has_ticked {
        crash_point("ticked");
        telemetry::ticked(&stored.name, jobs.len());
        shared.settings.recorders.record(|| Event::ScheduleFired { kind: &stored.kind, jobs: jobs.len() });
        shared.wake.notify_one();
        if due.ticks.iter().any(|tick| now - tick > SEEN_BY_CLAIMS) {
            shared.rescan_requested.notify_one();
        }
    }
    Ok(has_ticked && due.ticks.len() < MAX_TICKS_PER_CHECK)
}
