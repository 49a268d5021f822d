//! An operator: finds halted sequences, lets them wait for a moment, and goes on with them without the discarded jobs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use torture::cluster::connect;
use torture::process::Process;

use crate::role::Role;
use crate::suite::fixture::Fixture;

const PAUSE: Duration = Duration::from_millis(100);
/// How long a halted sequence waits for the operator. A job that wrongly starts needs a pass of admission and a claim.
const HALTED_FOR: Duration = Duration::from_millis(500);
/// How long the command may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The sequences that wait for the operator.
const HALTED: &str = "select job_id, limit_name, limit_key from jobs.permit where halted_at is not null";

/// A sequence that was halted.
#[derive(Debug)]
pub(super) struct Halt {
    /// The discarded job.
    pub(super) job: i64,
    /// The operator began to skip it at this time, or later.
    pub(super) until: DateTime<Utc>,
}

/// The operator at work.
pub(super) struct Skipping {
    task: AbortOnDropHandle<Result<Vec<Halt>>>,
    stop: CancellationToken,
}

impl Skipping {
    pub(super) fn start(fixture: &Fixture<'_>) -> Self {
        let stop = CancellationToken::new();
        let task =
            AbortOnDropHandle::new(tokio::spawn(skip(fixture.url(), fixture.logs().join("skip.log"), stop.clone())));
        Self { task, stop }
    }

    /// Returns all sequences that were halted.
    pub(super) async fn stop(self) -> Result<Vec<Halt>> {
        self.stop.cancel();
        self.task.await?
    }
}

/// It connects again after a crash of the server.
async fn skip(url: String, log: PathBuf, stop: CancellationToken) -> Result<Vec<Halt>> {
    let mut halts = Vec::new();
    while !stop.is_cancelled() {
        let conn = connect(&url).await?;
        while !stop.is_cancelled() && skip_all(&conn, &url, &log, &mut halts).await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(halts)
}

/// Returns `false` if the connection is lost.
async fn skip_all(conn: &Client, url: &str, log: &Path, halts: &mut Vec<Halt>) -> Result<bool> {
    let Ok(found) = conn.query(HALTED, &[]).await else { return Ok(false) };
    if found.is_empty() {
        return Ok(true);
    }
    tokio::time::sleep(HALTED_FOR).await;
    let Ok(row) = conn.query_one("select clock_timestamp()", &[]).await else { return Ok(false) };
    let until = row.get(0);
    for row in found {
        let (job, name, key): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
        halts.retain(|halt| halt.job != job);
        halts.push(Halt { job, until });
        // During a crash of the server the command fails, and the sequence is still halted.
        Process::start(command(url, &name, &key)?, log.to_owned())?.ended(LIMIT).await?;
    }
    Ok(true)
}

fn command(url: &str, name: &str, key: &str) -> Result<Command> {
    let mut command = Role::Worker.command(url).context("the worker's program")?;
    command.env("DATABASE_URL", url).args(["sequences", "skip", name, key, "--actor", "torture"]);
    Ok(command)
}
