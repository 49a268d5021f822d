//! `listen`: SQLite sends no message at a commit. But a connection can check cheaply whether another connection has
//! committed. A separate thread makes these checks. To hand each check to another thread would cost several times as
//! much as the check itself.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use diesel_jobs_core::storage::StorageResult;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::error::storage_error;
use crate::sqlite::connect::connect;
use crate::sqlite::hint;
use crate::sqlite::place::{Place, gone};
use crate::sqlite::queries::data_version::data_version;

/// The pause between two checks. One check takes 33 µs of processor time: 250 checks per second were measured at 0.8 %
/// of a core.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause for [`BRISK`] after each commit.
const BRISK_PAUSE: Duration = Duration::from_millis(4);
/// How long after a commit the pause is [`BRISK_PAUSE`]. A heartbeat is a commit, too. So this time is short enough
/// that an idle worker uses [`PAUSE`] most of the time.
const BRISK: Duration = Duration::from_secs(2);
/// The pause for [`EAGER`] after an enqueue of this process. The enqueue may commit a little later.
const EAGER_PAUSE: Duration = Duration::from_millis(1);
/// How long after an enqueue the pause is [`EAGER_PAUSE`].
const EAGER: Duration = Duration::from_millis(20);
/// How long it waits before it opens the file again after a failure.
const RECONNECT: Duration = Duration::from_secs(1);

/// What is notified after each commit.
pub(super) struct Wakes {
    pub(super) jobs: Arc<Notify>,
    pub(super) admission: Arc<Notify>,
}

/// Notifies `wakes` after each commit of another connection, until `stop`.
pub(super) async fn listen(file: Arc<str>, wakes: Wakes, stop: CancellationToken) {
    let stop = stop.child_token();
    // Also stops the thread if this future is dropped.
    let _stopped = stop.clone().drop_guard();
    let watching = spawn_blocking(move || {
        while !stop.is_cancelled() {
            if let Err(error) = watch(&file, &wakes, &stop) {
                tracing::debug!(target: "diesel_jobs", { %error }, "listening for commits failed, opening the SQLite file again");
                let failed = Instant::now();
                while failed.elapsed() < RECONNECT && !stop.is_cancelled() {
                    thread::sleep(BRISK_PAUSE);
                }
            }
        }
    });
    if watching.await.is_err() {
        tracing::debug!(target: "diesel_jobs", "listening for commits ended, jobs are found by the poll");
    }
}

/// Checks for commits until `stop` or an error. It uses its own connection, because the number does not change at
/// commits of the connection that asks.
fn watch(file: &str, wakes: &Wakes, stop: &CancellationToken) -> StorageResult<()> {
    let place = Place::of(file);
    let opened = place.there().ok_or_else(|| gone(file))?;
    let mut conn = connect(file)?;
    let mut version = None;
    let mut enqueues = 0;
    let (mut committed, mut enqueued) = (Instant::now(), None::<Instant>);
    while !stop.is_cancelled() {
        let checked = Instant::now();
        if place.there() != Some(opened) {
            return Err(gone(file));
        }
        let now = Some(data_version(&mut conn).map_err(storage_error)?);
        if version != now {
            // Also notifies at the first check, because there may have been a commit before it.
            wakes.jobs.notify_one();
            wakes.admission.notify_one();
            (version, committed) = (now, Instant::now());
        }
        let pause = match enqueued {
            Some(at) if at.elapsed() < EAGER => EAGER_PAUSE,
            _ if committed.elapsed() < BRISK => BRISK_PAUSE,
            _ => PAUSE,
        };
        let number = hint::wait(enqueues, pause);
        if number != enqueues {
            (enqueues, enqueued) = (number, Some(Instant::now()));
            // Enqueues may come faster than a check is worth.
            thread::sleep(EAGER_PAUSE.saturating_sub(checked.elapsed()));
        }
    }
    Ok(())
}
