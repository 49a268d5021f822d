//! The admitter: makes held jobs available when their rules allow it. One session of the database admits at a time;
//! `migrations/README.md` explains how. It starts a pass
//!
//! - when a job with a limit or in a sequence has ended in this process and has not passed its permit on,
//! - when a notification of an enqueue arrives,
//! - every 50 ms while the worker has jobs and its program has rules, because enqueues notify only idle workers,
//! - when the next token comes for which a job waits, which the pass before has returned,
//! - at once if a pass has left something to do, and after some milliseconds if another session was admitting,
//! - 900 ms after the last sweep (5 s if the program has no rules and no job is held). This pass is a *sweep*: it finds
//!   keys without a nudge, jobs that have become due, and jobs that have expired.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::ended_waiting::end_waiting;
use crate::crash_point::crash_point;
use crate::storage::WaitEnd;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// The time between two sweeps, while there are held jobs or this program has rules.
const SWEEP: Duration = Duration::from_millis(900);
/// The time between two sweeps if no job is held and this program has no rules. Other programs may enqueue jobs with
/// rules.
const SWEEP_WITHOUT_RULES: Duration = Duration::from_secs(5);
/// The time between two passes while this program has rules and this worker has jobs. Enqueues notify only idle
/// workers.
const PASS_WITH_JOBS: Duration = Duration::from_millis(50);
/// The shortest time between two passes that notifications start, while no job is held and this program has no rules.
/// On SQLite each commit is a notification.
const BETWEEN_NOTIFICATIONS: Duration = Duration::from_secs(1);
/// The shortest time between two passes for tokens.
const BETWEEN_TOKENS: Duration = Duration::from_millis(2);
/// How long it waits, on average, if another session admits.
const RETRY_WHEN_BUSY: Duration = Duration::from_millis(5);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("admit");
    let has_rules = shared.registry.has_rules();
    let (mut swept, mut holds, mut wait) = (None::<Instant>, false, Duration::ZERO);
    let mut sweep_again = false;
    let mut left_out = 0;
    let mut notifications_from = Instant::now();
    loop {
        let notified = async {
            tokio::time::sleep_until(notifications_from.into()).await;
            shared.admission.notified().await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = notified => {}
            () = tokio::time::sleep(wait) => {}
        }
        let every = if holds || has_rules { SWEEP } else { SWEEP_WITHOUT_RULES };
        let sweeps = sweep_again || swept.is_none_or(|swept| swept.elapsed() >= every);
        crash_point("admit");
        let found = shared.storage.admit(sweeps).await;
        crash_point("admitted");
        if sweeps && !found.as_ref().is_ok_and(|found| found.is_busy) {
            // Also after an error: if a sweep takes too long, the passes between two sweeps still admit what was
            // nudged.
            swept = Some(Instant::now());
            sweep_again = found.as_ref().is_ok_and(|found| found.sweep_again);
        }
        let next = match found {
            Ok(found) if found.is_busy => RETRY_WHEN_BUSY.mul_f64(rand::random_range(0.5..1.5)),
            Ok(found) => {
                holds = found.holds.unwrap_or(holds);
                if found.refused > 0 {
                    tracing::error!(
                        target: "diesel_jobs", { refused = found.refused },
                        "the database refused to make held jobs available; on PostgreSQL they are in jobs.dead_letter, on SQLite they are discarded; `worker doctor` says what to do");
                }
                left_out = telemetry::left_out(left_out, found.failures);
                let end = async |found: bool, end| {
                    let ended = if found { end_waiting(&shared, end).await } else { Ok(false) };
                    ended.unwrap_or_else(|problem| {
                        warning.report(&problem);
                        false
                    })
                };
                end(found.expired, WaitEnd::Expired).await;
                let has_freed = end(found.may_be_full, WaitEnd::LimitFull).await;
                if found.admitted > 0 {
                    shared.wake.notify_one();
                }
                let pass = match (found.more || has_freed, has_rules && shared.leases.count() > 0) {
                    (true, _) => Duration::ZERO,
                    (false, true) => PASS_WITH_JOBS,
                    (false, false) => every.saturating_sub(swept.map_or(Duration::ZERO, |swept| swept.elapsed())),
                };
                found.next_token.map_or(pass, |token| pass.min(token.max(BETWEEN_TOKENS)))
            }
            Err(problem) => {
                warning.report(&problem);
                SWEEP
            }
        };
        notifications_from = Instant::now() + if holds || has_rules { Duration::ZERO } else { BETWEEN_NOTIFICATIONS };
        wait = next;
    }
}
