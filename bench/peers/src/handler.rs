//! The handlers of all systems. Each system's own handler only calls [`handle`].

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How often a worker process reads its counter.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

static MODE: OnceLock<Mode> = OnceLock::new();
static STARTED: AtomicU64 = AtomicU64::new(0);

/// The arguments of every job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Payload {
    /// Identifies the job.
    pub(crate) id: i64,
    /// Gives the arguments the size of a small job's.
    pub(crate) name: String,
}

impl Payload {
    /// `{"id":1,"name":"hello"}`.
    pub(crate) fn new(id: i64) -> Self {
        Self { id, name: "hello".to_owned() }
    }

    /// Returns `n` payloads with id 1.
    pub(crate) fn many(n: usize) -> Vec<Self> {
        (0..n).map(|_| Self::new(1)).collect()
    }
}

/// What handlers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Count, and be done.
    Count,
    /// Say when each job started.
    Time,
    /// Never end, so that the worker has its hands full.
    Hang,
}

/// Sets what the handlers of this process do, and starts to report how many have started.
pub(crate) fn start(mode: Mode) {
    let _ = MODE.set(mode);
    std::thread::spawn(|| {
        let mut seen = 0;
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let started = STARTED.load(Ordering::Relaxed);
            if started != seen {
                seen = started;
                say(&format!("started {started}"));
            }
        }
    });
}

/// The work of one job.
pub(crate) async fn handle(id: i64) {
    match MODE.get() {
        Some(Mode::Time) => {
            let now = unix_nanos();
            STARTED.fetch_add(1, Ordering::Relaxed);
            say(&format!("job {id} {now}"));
        }
        Some(Mode::Hang) => {
            STARTED.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        _ => {
            STARTED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The clock that both processes read.
pub(crate) fn unix_nanos() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// Prints a line for the parent process. If the parent is gone, it ends this process.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
