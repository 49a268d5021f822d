//! A worker process, seen from its parent.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

use crate::args::WORKER;
use crate::gate::READY;
use crate::handler::Mode;
use crate::name::Name;

/// How long a worker may take to connect.
const CONNECTING: Duration = Duration::from_secs(30);

/// A worker process. It is killed when dropped.
pub(crate) struct WorkerProcess {
    child: Child,
    started: watch::Receiver<u64>,
    /// When each job started, by its id, in nanoseconds since 1970. Empty unless the mode is [`Mode::Time`].
    times: Arc<Mutex<HashMap<i64, i128>>>,
}

impl WorkerProcess {
    /// Starts a process and waits until it is connected. It then waits for [`go`](Self::go).
    pub(crate) async fn start(system: Name, mode: Mode, url: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([WORKER, "--system", &word(&system), "--mode", &word(&mode)])
            .env("DATABASE_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the program could not start itself as a worker")?;
        let out = child.stdout.take().context("a worker process without output")?;
        let mut lines = BufReader::new(out).lines();
        let first = tokio::time::timeout(CONNECTING, lines.next_line());
        match first.await {
            Ok(Ok(Some(line))) if line == READY => {}
            _ => bail!("the worker of {} did not get ready; what it said stands above", system.text()),
        }
        let (count, started) = watch::channel(0);
        let times = Arc::default();
        tokio::spawn(listen(lines, count, Arc::clone(&times)));
        Ok(Self { child, started, times })
    }

    /// Makes the worker begin. Returns the time.
    pub(crate) async fn go(&mut self) -> Result<Instant> {
        let stdin = self.child.stdin.as_mut().context("a worker process without input")?;
        let now = Instant::now();
        stdin.write_all(b"go\n").await?;
        Ok(now)
    }

    /// Returns how many handlers have started so far.
    pub(crate) fn started(&self) -> u64 {
        *self.started.borrow()
    }

    /// Returns a receiver of that number for another task.
    pub(crate) fn counter(&self) -> watch::Receiver<u64> {
        self.started.clone()
    }

    /// Waits until this many handlers have started, or until the limit. Returns whether they have started.
    pub(crate) async fn await_started(&mut self, n: u64, limit: Duration) -> Result<bool> {
        match tokio::time::timeout(limit, self.started.wait_for(|started| *started >= n)).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(_)) => bail!("the worker process ended; what it said stands above"),
            Err(_) => Ok(false),
        }
    }

    /// Waits until no handler has started for this long.
    pub(crate) async fn await_calm(&mut self, calm: Duration) -> Result<()> {
        loop {
            match tokio::time::timeout(calm, self.started.changed()).await {
                Err(_) => return Ok(()),
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the worker process ended; what it said stands above"),
            }
        }
    }

    /// Returns when each job started.
    pub(crate) fn times(&self) -> MutexGuard<'_, HashMap<i64, i128>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("a worker process could not be killed")
    }
}

/// Returns the value's name on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

async fn listen(
    mut lines: Lines<BufReader<ChildStdout>>,
    count: watch::Sender<u64>,
    times: Arc<Mutex<HashMap<i64, i128>>>,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("started"), Some(n), None) => {
                if let Ok(n) = n.parse() {
                    count.send_replace(n);
                }
            }
            (Some("job"), Some(id), Some(at)) => {
                if let (Ok(id), Ok(at)) = (id.parse(), at.parse()) {
                    times.lock().unwrap_or_else(PoisonError::into_inner).insert(id, at);
                }
            }
            _ => {}
        }
    }
}
