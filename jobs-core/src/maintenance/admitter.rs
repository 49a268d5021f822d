//! The admitter: moves held jobs to the available ones, as far as their limits allow it. One session of the database admits at a
//! time. A worker is woken when a limited job of its own has ended, and by the notification of an enqueue. A pass each second finds
//! what nobody has told, and jobs that have become due. While jobs with a rate wait, a pass tells when the next token comes, and the
//! admitter sleeps until then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::crash_point::crash_point;
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// The time between two sweeps, while there are held jobs or this program has limits.
const SWEEP: Duration = Duration::from_millis(900);
/// The time between two sweeps otherwise: other programs may enqueue jobs with limits.
const QUIET: Duration = Duration::from_secs(5);
/// The time between two passes while this worker has jobs of a program with limits. Enqueues do not notify workers that are not idle.
const BUSY: Duration = Duration::from_millis(50);
/// The time between two passes for hints, while no job is held and this program has no limits. On SQLite each commit is a hint.
const BETWEEN_HINTS: Duration = Duration::from_secs(1);
/// The shortest time between two passes for tokens.
const BETWEEN_TOKENS: Duration = Duration::from_millis(2);
/// How long it waits while another session admits.
const OTHERS_TURN: Duration = Duration::from_millis(5);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("admit");
    let has_limits = shared.registry.has_limits();
    let (mut swept, mut holds, mut wait) = (None::<Instant>, false, Duration::ZERO);
    let mut sweep_again = false;
    let mut hints_from = Instant::now();
    loop {
        let hint = async {
            tokio::time::sleep_until(hints_from.into()).await;
            shared.admission.notified().await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = hint => {}
            () = tokio::time::sleep(wait) => {}
        }
        let every = if holds || has_limits { SWEEP } else { QUIET };
        let sweeps = sweep_again || swept.is_none_or(|swept| swept.elapsed() >= every);
        crash_point("admit");
        let found = shared.storage.admit(sweeps).await;
        crash_point("admitted");
        if sweeps && !found.as_ref().is_ok_and(|found| found.is_busy) {
            // Also after an error: if a sweep takes too long, the passes between two sweeps still admit what was nudged.
            swept = Some(Instant::now());
            sweep_again = found.as_ref().is_ok_and(|found| found.sweep_again);
        }
        let next = match found {
            Ok(found) if found.is_busy => OTHERS_TURN.mul_f64(rand::random_range(0.5..1.5)),
            Ok(found) => {
                holds = found.holds;
                if found.refused > 0 {
                    tracing::error!(
                        target: "diesel_jobs", { refused = found.refused },
                        "the database refused to make held jobs available; on PostgreSQL they are in jobs.dead_letter, on SQLite they are discarded; `worker check` says what to do");
                }
                if found.admitted > 0 {
                    shared.wake.notify_one();
                }
                let pass = match (found.more, has_limits && shared.leases.count() > 0) {
                    (true, _) => Duration::ZERO,
                    (false, true) => BUSY,
                    (false, false) => every.saturating_sub(swept.map_or(Duration::ZERO, |swept| swept.elapsed())),
                };
                found.next_token.map_or(pass, |token| pass.min(token.max(BETWEEN_TOKENS)))
            }
            Err(problem) => {
                warning.report(&problem);
                SWEEP
            }
        };
        hints_from = Instant::now() + if holds || has_limits { Duration::ZERO } else { BETWEEN_HINTS };
        wait = next;
    }
}
