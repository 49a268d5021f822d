//! The heartbeat: a thread and a connection of its own, so that neither a handler that blocks the runtime nor a crowd
//! on the pool costs the worker its leases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::lease::WorkerId;
use crate::storage::{Heartbeat, StorageResult};
use crate::telemetry::{self, Trouble};

/// When the heartbeat last reached the database, and when it last failed to; by the monotonic clock.
#[derive(Default)]
pub(crate) struct Pulse {
    origin: OnceLock<Instant>,
    last_beat_ms: AtomicU64,
    last_failure_ms: AtomicU64,
}

impl Pulse {
    fn now_ms(&self) -> u64 {
        let since = self.origin.get_or_init(Instant::now).elapsed();
        // One more than the truth: zero means never.
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn beat(&self) {
        self.last_beat_ms.store(self.now_ms(), Ordering::Release);
    }

    fn failed(&self) {
        self.last_failure_ms.store(self.now_ms(), Ordering::Release);
    }

    fn within(&self, at: &AtomicU64, span: Duration) -> bool {
        let at = at.load(Ordering::Acquire);
        at > 0 && u128::from(self.now_ms().saturating_sub(at)) <= span.as_millis()
    }

    /// Whether a beat succeeded within this span.
    pub(crate) fn alive_within(&self, span: Duration) -> bool {
        self.within(&self.last_beat_ms, span)
    }

    /// Whether a beat failed within this span.
    pub(crate) fn failed_within(&self, span: Duration) -> bool {
        self.within(&self.last_failure_ms, span)
    }
}

/// Beats until it is dropped.
pub(super) struct HeartbeatThread {
    stop: CancellationToken,
}

impl Drop for HeartbeatThread {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the thread. The worker is registered already: its first beat is due in a quarter of a lease.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<HeartbeatThread> {
    let stop = CancellationToken::new();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (shared, stopped, main) = (shared.clone(), stop.clone(), Handle::current());
    shared.pulse.beat();
    std::thread::Builder::new().name("jobs-heartbeat".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = keep_alive(&shared, &main) => {}
            }
        });
    })?;
    Ok(HeartbeatThread { stop })
}

async fn keep_alive(shared: &Arc<Shared>, main: &Handle) {
    let trouble = Trouble::new("heartbeat");
    let every = shared.settings.beat();
    // Well below the beat, so that an outage of a second does not cost a quarter of a lease.
    let again = (every / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
    let mut line: Option<(WorkerId, Box<dyn Heartbeat>)> = None;
    loop {
        let id = *shared.id.borrow();
        match beat(shared, id, &mut line).await {
            Ok(true) => {
                shared.pulse.beat();
                tokio::time::sleep(every).await;
            }
            Ok(false) => {
                line = None;
                start_over(shared, main, id).await;
            }
            Err(problem) => {
                line = None;
                shared.pulse.failed();
                trouble.report(&problem);
                if !shared.pulse.alive_within(shared.settings.lease) {
                    // Nobody can say any more whose the jobs are: their handlers are asked to stop.
                    shared.leases.lose(id);
                }
                tokio::time::sleep(again).await;
            }
        }
    }
}

async fn beat(shared: &Shared, id: WorkerId, line: &mut Option<(WorkerId, Box<dyn Heartbeat>)>) -> StorageResult<bool> {
    if line.as_ref().is_none_or(|(of, _)| *of != id) {
        *line = None;
    }
    let (_, heartbeat) = match line {
        Some(open) => open,
        None => line.insert((id, shared.storage.open_heartbeat(id).await?)),
    };
    heartbeat.beat().await
}

/// The worker was declared dead and its jobs are elsewhere: it goes on under a new id, with nothing in hand. The
/// registration runs on the main runtime, whose pool must not hold connections of this one.
async fn start_over(shared: &Arc<Shared>, main: &Handle, old: WorkerId) {
    shared.pulse.failed();
    telemetry::declared_dead(old, shared.leases.bury(old));
    let again = shared.clone();
    let registered = main.spawn(async move {
        let id = WorkerId::generate();
        let mut info = again.info();
        info.id = id;
        again.storage.register(&info).await.map(|()| again.id.send_replace(id))
    });
    match registered.await {
        Ok(Ok(_)) => {}
        Ok(Err(problem)) => {
            telemetry::refused("register", &problem);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // The main runtime shuts down, and the worker with it.
        Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
    }
}
