//! A worker that is suspended while its finishes are on the way, until its jobs run elsewhere. Then the stale finishes
//! arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio_postgres::Client;
use torture::history::{Enqueued, fault};
use torture::process::{Process, Signal};
use torture::proxy::{Held, Proxy};
use torture::workload::{Application, EnqueueCall, Work};

use super::fixture::{Fixture, History, LEASE, START};
use super::statements::FINISH;

/// How long the next attempts of its jobs should run, so that the stale finishes arrive meanwhile.
pub(super) const HEIR_MILLIS: u64 = 6_000;
/// How long the worker is suspended, and then its finish is delayed: its jobs run elsewhere.
const FOR: Duration = Duration::from_secs(LEASE.as_secs() + 2);

/// The suspended worker.
pub(super) struct Suspended {
    process: Process,
    _line: Proxy,
    held: Arc<Held>,
    since: Instant,
    awake: bool,
    ledger: Vec<Enqueued>,
}

impl Suspended {
    /// Starts it, enqueues these jobs, and suspends it when its first finish is on the way. No other worker may run
    /// yet.
    pub(super) async fn with(fixture: &Fixture<'_>, conn: &Client, works: Vec<Work>) -> Result<Self> {
        let line = Proxy::start(fixture.upstream()).await?;
        let held = line.hold(FINISH);
        let url = fixture.url_through(line.port());
        // When it is awake, it rescues the jobs of killed workers, too. These may be in any number of kills.
        let args = ["--slots", "16", "--poll-interval", "100ms", "--max-crashes", "1000"];
        let mut process = fixture.worker(&url, History::Durable, &args)?;
        process.said("worker started", START).await?;
        let mut application = Application::new(fixture.url());
        application.perform(&EnqueueCall::Bulk(works)).await?;
        tokio::time::timeout(START, held.caught()).await.context("no finish was seen on its way")?;
        fault(conn, "stop", Some(process.id())).await?;
        process.signal(Signal::STOP)?;
        Ok(Self { process, _line: line, held, since: Instant::now(), awake: false, ledger: application.ledger() })
    }

    /// Lets it go on if its jobs run elsewhere by now. Its finishes arrive first.
    pub(super) fn wake_when_due(&mut self) -> Result<()> {
        if !self.awake && self.since.elapsed() > FOR {
            self.held.release();
            self.process.signal(Signal::CONT)?;
            self.awake = true;
        }
        Ok(())
    }

    /// Waits until it may go on, and lets it.
    pub(super) async fn wake(&mut self) -> Result<()> {
        tokio::time::sleep_until((self.since + FOR + Duration::from_millis(1)).into()).await;
        self.wake_when_due()
    }

    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    /// The record of its jobs.
    pub(super) fn ledger(&self) -> Vec<Enqueued> {
        self.ledger.clone()
    }
}
