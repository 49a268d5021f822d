//! Several workers of one kind, each replaced when it is gone.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio_postgres::Client;
use torture::history::fault;
use torture::process::{Process, Signal};

use super::arena::{Arena, History, START};

/// The longest that a worker with nothing to do may take to stop.
const STOP: Duration = Duration::from_secs(20);

/// Workers at work.
pub(super) struct Fleet<'a> {
    arena: &'a Arena<'a>,
    url: String,
    history: History,
    args: Vec<String>,
    workers: Vec<Process>,
}

impl<'a> Fleet<'a> {
    /// Starts so many, and waits until they work.
    pub(super) async fn start(
        arena: &'a Arena<'a>,
        url: String,
        history: History,
        args: &[&str],
        size: usize,
    ) -> Result<Self> {
        let args = args.iter().map(ToString::to_string).collect();
        let mut fleet = Self { arena, url, history, args, workers: Vec::new() };
        for _ in 0..size {
            let worker = fleet.worker()?;
            fleet.workers.push(worker);
        }
        fleet.at_work().await?;
        Ok(fleet)
    }

    /// Waits until those work, too, that took the places of others.
    pub(super) async fn at_work(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.said("worker started", START).await?;
        }
        Ok(())
    }

    /// One more of the kind, not in the fleet.
    pub(super) fn worker(&self) -> Result<Process> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.arena.worker(&self.url, self.history, &args)
    }

    /// Kills one, writes that down, and starts another in its place.
    pub(super) async fn kill(&mut self, place: usize, conn: &Client) -> Result<()> {
        // Before the deed: recovery is not to look faster than it is.
        fault(conn, "kill", Some(self.workers[place].id())).await?;
        self.workers[place].kill()?;
        self.workers[place] = self.worker()?;
        Ok(())
    }

    /// Starts another in the place of each that is gone, as a supervisor does, and writes that down. Answers how many.
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

    /// Takes one out, and starts another in its place.
    pub(super) fn replace(&mut self, place: usize) -> Result<Process> {
        let next = self.worker()?;
        Ok(std::mem::replace(&mut self.workers[place], next))
    }

    /// Their numbers.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.workers.iter().map(Process::id).collect()
    }

    /// Those that are gone although nobody ended them.
    pub(super) fn dead(&mut self) -> Result<Vec<u32>> {
        let mut dead = Vec::new();
        for worker in &mut self.workers {
            if !worker.is_alive()? {
                dead.push(worker.id());
            }
        }
        Ok(dead)
    }

    /// Asks all to stop; they have nothing to do and must.
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
