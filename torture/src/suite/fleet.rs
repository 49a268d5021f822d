//! Several workers with the same settings. Workers that end are replaced.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio_postgres::Client;
use torture::history::fault;
use torture::process::{Process, Signal};

use super::fixture::{Fixture, History, START};

/// How long a worker without jobs may take to stop.
const STOP: Duration = Duration::from_secs(120);

/// Running workers.
pub(super) struct Fleet<'a> {
    fixture: &'a Fixture<'a>,
    url: String,
    history: History,
    args: Vec<String>,
    workers: Vec<Process>,
}

impl<'a> Fleet<'a> {
    /// Starts `size` workers, and waits until they have started.
    pub(super) async fn start(
        fixture: &'a Fixture<'a>,
        url: String,
        history: History,
        args: &[&str],
        size: usize,
    ) -> Result<Self> {
        let args = args.iter().map(ToString::to_string).collect();
        let mut fleet = Self { fixture, url, history, args, workers: Vec::new() };
        for _ in 0..size {
            let worker = fleet.worker()?;
            fleet.workers.push(worker);
        }
        fleet.at_work().await?;
        Ok(fleet)
    }

    /// Waits until all have started, including replacements.
    pub(super) async fn at_work(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.said("worker started", START).await?;
        }
        Ok(())
    }

    /// Starts a worker with the same settings that is not part of the fleet.
    pub(super) fn worker(&self) -> Result<Process> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.fixture.worker(&self.url, self.history, &args)
    }

    /// Kills one, records that, and starts another in its place.
    pub(super) async fn kill(&mut self, place: usize, conn: &Client) -> Result<()> {
        // Recorded before the kill. Otherwise the recovery would look faster than it is.
        fault(conn, "kill", Some(self.workers[place].id())).await?;
        self.workers[place].kill()?;
        self.workers[place] = self.worker()?;
        Ok(())
    }

    /// Starts another in the place of each that has ended, as a supervisor does, and records that. Returns how many.
    pub(super) async fn revive(&mut self, conn: &Client) -> Result<usize> {
        let mut revived = 0;
        for place in 0..self.workers.len() {
            if !self.workers[place].is_alive()? {
                fault(conn, "died", Some(self.workers[place].id())).await?;
                self.workers[place] = self.worker()?;
                revived += 1;
            }
        }
        Ok(revived)
    }

    /// Removes one from the fleet and returns it. Starts another in its place.
    pub(super) fn replace(&mut self, place: usize) -> Result<Process> {
        let next = self.worker()?;
        Ok(std::mem::replace(&mut self.workers[place], next))
    }

    /// Their process ids.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.workers.iter().map(Process::id).collect()
    }

    /// Returns the process ids of those that ended although the suite did not end them.
    pub(super) fn dead(&mut self) -> Result<Vec<u32>> {
        let mut dead = Vec::new();
        for worker in &mut self.workers {
            if !worker.is_alive()? {
                dead.push(worker.id());
            }
        }
        Ok(dead)
    }

    /// Asks all to stop. They have no jobs, so each must end with code 0.
    pub(super) async fn stop(mut self) -> Result<()> {
        for worker in &self.workers {
            worker.signal(Signal::TERM)?;
        }
        for worker in &mut self.workers {
            let code = worker.ended(STOP).await?;
            if code != 0 {
                bail!("process {} ended with {code}; its log is {}", worker.id(), worker.log().display());
            }
        }
        Ok(())
    }
}
