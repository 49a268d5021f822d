//! Ctrl-C during long work: a batch that has begun is finished, and a second Ctrl-C does not wait for it.

use std::pin::pin;
use std::time::Duration;

use super::super::progress::Progress;
use super::super::signals::Signals;

/// Waits for one batch. Returns its result, and whether the user has interrupted the command. `None`: the user does not
/// wait for the batch. It is done or not, as a whole.
pub(in super::super) async fn batch<T>(
    work: impl Future<Output = T>,
    progress: &Progress,
    signals: &mut Signals,
) -> Option<(T, bool)> {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return Some((done, false)),
        _ = signals.next() => {}
    }
    progress.say("interrupted: finishing the current batch; press Ctrl-C again to stop without waiting for it");
    tokio::select! {
        done = &mut work => Some((done, true)),
        _ = signals.next() => None,
    }
}

/// Waits. Returns whether the user has interrupted the command.
pub(in super::super) async fn pause(time: Duration, signals: &mut Signals) -> bool {
    tokio::select! {
        _ = signals.next() => true,
        () = tokio::time::sleep(time) => false,
    }
}
