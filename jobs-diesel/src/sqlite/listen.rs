//! `listen`: SQLite tells nobody about a commit, but a connection can ask, cheaply, whether there was one. A thread of its own
//! asks: to hand each look to another one would cost several times what the look does.

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

/// The pause between two looks. One takes 33 µs of a processor: 250 a second were measured at 0.8 % of a core.
const PAUSE: Duration = Duration::from_millis(10);
/// While somebody commits,
const BRISK_PAUSE: Duration = Duration::from_millis(4);
/// which is so long after a commit. A heartbeat is one, and an idle worker shall not be brisk for it most of the time.
const BRISK: Duration = Duration::from_secs(2);
/// After an enqueue of this process, which may commit a little later,
const EAGER_PAUSE: Duration = Duration::from_millis(1);
/// for so long.
const EAGER: Duration = Duration::from_millis(20);
/// How long it waits before it opens the file again after a failure.
const RECONNECT: Duration = Duration::from_secs(1);

/// Notifies `wake` after each commit of anybody else, until `stop`.
pub(super) async fn listen(file: Arc<str>, wake: Arc<Notify>, stop: CancellationToken) {
    let stop = stop.child_token();
    // Also if nobody waits for this any more.
    let _stopped = stop.clone().drop_guard();
    let watching = spawn_blocking(move || {
        while !stop.is_cancelled() {
            if let Err(error) = watch(&file, &wake, &stop) {
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

/// A connection of its own, because one's own commits are never news to a connection.
fn watch(file: &str, wake: &Notify, stop: &CancellationToken) -> StorageResult<()> {
    let place = Place::of(file);
    let opened = place.there().ok_or_else(|| gone(file))?;
    let mut conn = connect(file)?;
    let mut version = None;
    let mut enqueues = 0;
    let (mut committed, mut enqueued) = (Instant::now(), None::<Instant>);
    while !stop.is_cancelled() {
        let looked = Instant::now();
        if place.there() != Some(opened) {
            return Err(gone(file));
        }
        let now = Some(data_version(&mut conn).map_err(storage_error)?);
        if version != now {
            // Also at the first look: something may have been committed before it.
            wake.notify_one();
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
            // Enqueues may come faster than looks are worth.
            thread::sleep(EAGER_PAUSE.saturating_sub(looked.elapsed()));
        }
    }
    Ok(())
}
