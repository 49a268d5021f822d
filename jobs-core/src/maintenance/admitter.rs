//! The admitter: makes held jobs available when their rules allow it. One session of the database admits at a time;
//! `migrations/README.md` explains how. It starts a pass
//!
//! - when a job with a limit or in a sequence has ended in this process and has not passed its permit on,
//! - when a notification of an enqueue arrives,
//! - every 50 ms while the worker has jobs and its program has rules, because enqueues notify only idle workers,
//! - when the next token comes for which a job waits, which the pass before has returned,
//! - at once if a pass has left something to do, and after some milliseconds if another session was admitting. Until
//!   then, nothing else starts one: the session that admits may be short of processor time,
//! - 900 ms after the last sweep (5 s if the program has no rules and no job is held). This pass is a *sweep*: it finds
//!   keys without a nudge, jobs that have become due, jobs that have expired, and what an operator has resumed. While
//!   no job is held, an idle worker makes it when a poll has found such a job, a nudge or a token, when an operator
//!   may have changed a setting, and otherwise once in [`POLLS`] polls. If polls are rare and jobs are held, it makes
//!   it after each poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::ended_waiting::end_waiting;
use super::pause::Idle;
use crate::crash_point::crash_point;
use crate::storage::WaitEnd;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::idleness::{Call, POLLS};
use crate::worker::shared::Shared;

/// The time between two sweeps, while there are held jobs or this program has rules.
const SWEEP: Duration = Duration::from_millis(900);
/// The time between two sweeps if no job is held and this program has no rules. Other programs may enqueue jobs with
/// rules.
const SWEEP_WITHOUT_RULES: Duration = Duration::from_secs(5);
/// The time between two passes while this program has rules and this worker has jobs. Enqueues notify only idle
/// workers.
const PASS_WITH_JOBS: Duration = Duration::from_millis(50);
/// The shortest time between two passes that notifications start, while no job is held and this program has no rules,
/// or while this worker rests. On SQLite each commit is a notification. On a resting worker each ends the rest.
const BETWEEN_NOTIFICATIONS: Duration = Duration::from_secs(1);
/// The shortest time between two passes for tokens.
const BETWEEN_TOKENS: Duration = Duration::from_millis(2);
/// How long it waits, on average, if another session admits, and the most if it has found that several times.
const RETRY_WHEN_BUSY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_millis(40);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("admit");
    let not_ended = RateLimitedWarning::new("end_waiting");
    let has_rules = shared.registry.has_rules();
    let (mut swept, mut holds, mut wait) = (None::<Instant>, false, Wait::for_pass(Duration::ZERO));
    let mut idle = Idle { since: shared.idleness.now(), polls: POLLS, calls: &[Call::Sweep, Call::Changes] };
    let mut sweep_again = false;
    let mut is_hinted = false;
    let mut left_out = 0;
    let mut busy = 0;
    let mut notifications_from = Instant::now();
    loop {
        let notified = async {
            tokio::select! {
                () = tokio::time::sleep_until(notifications_from.into()) => {}
                // This worker rested, and has got a job.
                () = shared.idleness.wait(shared.idleness.now(), u32::MAX, &[]), if holds || has_rules => {}
            }
            shared.admission.notified().await;
        };
        tokio::select! {
            () = stop.cancelled() => {
                // All other workers may rest. So they are not left to notice the permit of the last job that has ended.
                if shared.admission.notified().now_or_never().is_none() {
                    return;
                }
            }
            () = notified => {
                is_hinted = true;
                // The hint may also be about a setting.
                shared.idleness.call(Call::Changes);
            }
            () = wait.until_over(&shared, idle) => {}
        }
        let since = shared.idleness.now();
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
            if found.is_ok() {
                idle.since = since;
            }
        }
        busy = if found.as_ref().is_ok_and(|found| found.is_busy) { busy + 1 } else { 0 };
        let retry = retry_after(busy).mul_f64(rand::random_range(0.5..1.5));
        let next = match found {
            Ok(found) if found.is_busy => Wait::for_pass(retry),
            Ok(found) => {
                holds = found.holds.unwrap_or(holds);
                if found.refused > 0 {
                    tracing::error!(
                        target: "diesel_jobs", { refused = found.refused },
                        "the database refused to make held jobs available; on PostgreSQL they are in jobs.dead_letter, on SQLite they are discarded; `worker doctor` says what to do");
                }
                left_out = telemetry::left_out(left_out, found.failures);
                let end = async |found: bool, end| {
                    let ended = if found { end_waiting(&shared, end, &not_ended).await } else { Ok(false) };
                    ended.unwrap_or_else(|problem| {
                        warning.report(&problem);
                        false
                    })
                };
                end(found.expired, WaitEnd::Expired).await;
                let has_freed = end(found.may_be_full, WaitEnd::LimitFull).await;
                // A job may be held for later. A poll says when the next sweep is, and a resting worker polls rarely.
                let was_hinted = std::mem::take(&mut is_hinted);
                if found.admitted > 0 || was_hinted && rests(&shared) {
                    shared.wake.notify_one();
                }
                let pass = match (found.more || has_freed, has_rules && shared.leases.count() > 0) {
                    (true, _) => Duration::ZERO,
                    (false, true) => PASS_WITH_JOBS,
                    (false, false) => Duration::MAX,
                };
                let token = found.next_token.map_or(Duration::MAX, |token| token.max(BETWEEN_TOKENS));
                let sweep = every.saturating_sub(swept.map_or(Duration::ZERO, |swept| swept.elapsed()));
                Wait { pass: pass.min(token), sweep }
            }
            Err(problem) => {
                warning.report(&problem);
                Wait::for_pass(SWEEP)
            }
        };
        let is_prompt = (holds || has_rules) && !rests(&shared);
        notifications_from = Instant::now() + if is_prompt { retry } else { BETWEEN_NOTIFICATIONS };
        wait = next;
        // While jobs are held, sweeps go on. A worker that may rest makes one after each poll.
        idle.polls = match (holds, shared.settings.rests()) {
            (true, rests) => u32::from(rests),
            (false, _) => POLLS,
        };
    }
}

/// How long it waits, on average, after it has found so many times that another session admits.
fn retry_after(busy: u32) -> Duration {
    match busy {
        0 => Duration::ZERO,
        times => LONGEST_RETRY.min(RETRY_WHEN_BUSY * 2_u32.saturating_pow(times - 1)),
    }
}

/// Whether polls may be far apart.
fn rests(shared: &Shared) -> bool {
    shared.idleness.is_idle() && shared.settings.rests()
}

/// The time until the next pass, and until the next sweep, which an idle worker makes later.
struct Wait {
    pass: Duration,
    sweep: Duration,
}

impl Wait {
    fn for_pass(pass: Duration) -> Self {
        Self { pass, sweep: Duration::MAX }
    }

    async fn until_over(&self, shared: &Shared, idle: Idle) {
        let sweep = async {
            tokio::time::sleep(self.sweep).await;
            idle.wait(shared).await;
        };
        tokio::select! {
            () = tokio::time::sleep(self.pass) => {}
            () = sweep => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_ever_less_often_while_another_session_admits() {
        let waits = [0, 1, 2, 3, 4, 5, 99, u32::MAX].map(|busy| retry_after(busy).as_millis());
        assert_eq!(waits, [0, 5, 10, 20, 40, 40, 40, 40]);
    }
}
