//! Whether the worker is idle, and how often its services send statements meanwhile.
//!
//! An idle worker has no job, and has polled without finding one for as long as its polls are more frequent than usual.
//! Its storage says at each poll what else there is to do and whether a setting has changed ([`Upkeep`]). So its
//! services need not look for themselves. Each of them runs when it is *called*, and otherwise once in [`POLLS`] polls,
//! right after a poll, so that a database that bills its activity has one short period of it per poll. A storage that
//! does not say what there is to do has no idle workers, and their services keep their own pace.
//!
//! If the poll interval is longer than the time between two heartbeats, an idle worker also *rests*: it sends a
//! heartbeat after each poll, and each says that the worker counts as alive until after the next one. A resting worker
//! must not claim, because its jobs would be rescued as late as that. So before a claim, a usual heartbeat ends the
//! rest. Until the next poll, a failed heartbeat does so, too.

use std::time::{Duration, Instant};

use tokio::sync::watch;

#[cfg(doc)]
use crate::storage::Upkeep;

/// How many polls of an idle worker pass before a service runs that nobody has called.
pub(crate) const POLLS: u32 = 50;

/// A worker is not idle within this time after a failed claim, because the database may still carry the claim out. By
/// then the reconciler has searched for its jobs.
const WARY: Duration = Duration::from_secs(120);

/// What may be the reason to run a service of an idle worker before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// An operator may have changed a setting: a poll says so, or the storage has sent a notification without a queue.
    /// Or the clock of the database has stepped.
    Changes,
    /// A worker is dead, or a quarantined job is due.
    Rescue,
    /// A held job is due, or a waiting job has expired.
    Sweep,
    /// An action on many jobs is not finished.
    Operation,
    /// A job of any queue and kind has been due for a while.
    Overdue,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    idle: bool,
    /// The polls of all idle times.
    polls: u64,
    /// How often each call was made, in the order of [`Call`].
    calls: [u64; 5],
    /// When a claim failed last.
    failed_claim: Option<Instant>,
    /// The worker claims nothing before it has ended its rest.
    may_rest: bool,
    /// The database may have been told that the next heartbeat comes late.
    is_rest_told: bool,
}

impl State {
    /// Whether one of these calls was made since then.
    fn is_called(&self, since: &Self, calls: &[Call]) -> bool {
        calls.iter().any(|call| self.calls[*call as usize] > since.calls[*call as usize])
    }
}

/// The idle state of one worker.
#[derive(Debug, Default)]
pub(crate) struct Idleness(watch::Sender<State>);

/// A moment, from which polls and calls are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(State);

impl Idleness {
    /// The worker is idle from now on, and may rest, unless a claim has failed lately.
    pub(super) fn begin(&self, may_rest: bool) {
        self.change(|state| {
            let idle = state.failed_claim.is_none_or(|at| at.elapsed() > WARY);
            (state.idle, state.may_rest) = (idle, idle && may_rest);
        });
    }

    /// A claim has failed at this moment.
    pub(super) fn claim_has_failed(&self, at: Instant) {
        self.end();
        self.change(|state| state.failed_claim = Some(at));
    }

    /// The worker has a job, or does not reach the database.
    pub(super) fn end(&self) {
        self.change(|state| (state.idle, state.may_rest) = (false, false));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.0.send_if_modified(|state| {
            let before = (state.idle, state.may_rest);
            change(state);
            before != (state.idle, state.may_rest)
        });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.borrow().idle
    }

    /// An idle worker has polled.
    pub(super) fn polled(&self) {
        self.0.send_modify(|state| state.polls += 1);
    }

    /// Calls the services of an idle worker that wait for this.
    pub(crate) fn call(&self, call: Call) {
        self.0.send_modify(|state| state.calls[call as usize] += 1);
    }

    /// Now. A service asks before it looks at the database, so that it misses no later call.
    pub(crate) fn now(&self) -> Since {
        Since(*self.0.borrow())
    }

    /// Waits while the worker is idle: until there were so many polls since then, or one of these calls.
    pub(crate) async fn wait(&self, Since(since): Since, polls: u32, calls: &[Call]) {
        self.until(|state| {
            !state.idle || state.polls - since.polls >= u64::from(polls) || state.is_called(&since, calls)
        })
        .await;
    }

    /// Whether one of these calls was made since then.
    pub(super) fn is_called(&self, Since(since): Since, calls: &[Call]) -> bool {
        self.0.borrow().is_called(&since, calls)
    }

    /// Ends the rest: returns when the database knows that heartbeats are as frequent as usual.
    pub(super) async fn end_rest(&self) {
        self.change(|state| state.may_rest = false);
        self.until(|state| !state.is_rest_told).await;
    }

    /// Whether the next heartbeat says that the one after it comes late.
    pub(super) fn rests(&self) -> bool {
        let mut rests = false;
        self.0.send_if_modified(|state| {
            rests = state.may_rest;
            // The database may carry the heartbeat out although its reply is lost.
            state.is_rest_told |= rests;
            false
        });
        rests
    }

    /// The database knows that heartbeats are as frequent as usual.
    pub(super) fn rest_has_ended(&self) {
        self.0.send_if_modified(|state| std::mem::take(&mut state.is_rest_told));
    }

    /// Whether the database may believe that the next heartbeat comes late.
    pub(crate) fn is_rest_told(&self) -> bool {
        self.0.borrow().is_rest_told
    }

    /// Waits until the next heartbeat of a resting worker is due: after a poll, and after a change that may be a
    /// request to this worker. It is due at once when the rest must end.
    pub(super) async fn until_heartbeat(&self, Since(since): Since) {
        self.until(|state| !state.may_rest || state.polls > since.polls || state.is_called(&since, &[Call::Changes]))
            .await;
    }

    async fn until(&self, is_over: impl FnMut(&State) -> bool) {
        // It fails only if the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(is_over).await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether the wait is over.
    fn is_over(wait: impl Future<Output = ()>) -> bool {
        std::pin::pin!(wait).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_service_of_an_idle_worker_waits_for_polls_or_a_call() {
        let idleness = Idleness::default();
        let since = idleness.now();
        let rescue = || is_over(idleness.wait(since, 2, &[Call::Rescue]));
        assert!(rescue(), "the worker is busy");
        idleness.begin(false);
        idleness.polled();
        assert!(!rescue(), "one poll is not enough");
        idleness.call(Call::Sweep);
        assert!(!rescue(), "another service was called");
        idleness.call(Call::Rescue);
        assert!(rescue() && !is_over(idleness.wait(idleness.now(), 2, &[Call::Rescue])));
        idleness.polled();
        assert!(is_over(idleness.wait(since, 2, &[])));
        idleness.end();
        assert!(is_over(idleness.wait(idleness.now(), 2, &[])));
    }

    #[test]
    fn a_worker_is_not_idle_soon_after_a_failed_claim() {
        let idleness = Idleness::default();
        idleness.begin(true);
        let failed = Instant::now();
        idleness.claim_has_failed(failed);
        assert!(!idleness.is_idle());
        idleness.begin(true);
        assert!(!idleness.is_idle() && !idleness.rests());
        if let Some(long_ago) = failed.checked_sub(2 * WARY) {
            idleness.claim_has_failed(long_ago);
            idleness.begin(true);
            assert!(idleness.is_idle() && idleness.rests());
        }
    }

    #[test]
    fn a_worker_does_not_claim_before_the_database_knows_that_its_rest_is_over() {
        let idleness = Idleness::default();
        assert!(!idleness.rests() && is_over(idleness.end_rest()), "a busy worker does not rest");
        idleness.begin(true);
        let sent = idleness.now();
        assert!(is_over(idleness.end_rest()), "the database was not told");
        idleness.begin(true);
        assert!(idleness.rests() && idleness.is_rest_told());
        assert!(!is_over(idleness.until_heartbeat(sent)));
        let claim = idleness.end_rest();
        assert!(!is_over(claim));
        assert!(is_over(idleness.until_heartbeat(sent)), "the heartbeat is due at once");
        assert!(!idleness.rests());
        assert!(!is_over(idleness.end_rest()), "the heartbeat was not answered yet");
        idleness.rest_has_ended();
        assert!(is_over(idleness.end_rest()));
    }

    #[test]
    fn a_resting_worker_sends_a_heartbeat_after_a_poll_and_after_a_change() {
        let idleness = Idleness::default();
        idleness.begin(true);
        assert!(idleness.rests());
        let since = idleness.now();
        idleness.call(Call::Sweep);
        assert!(!is_over(idleness.until_heartbeat(since)));
        idleness.polled();
        assert!(is_over(idleness.until_heartbeat(since)));
        let since = idleness.now();
        idleness.call(Call::Changes);
        assert!(is_over(idleness.until_heartbeat(since)));
    }
}
