//! One step: it starts without jobs and ends with its figures.

use std::time::{Duration, Instant};

use diesel_jobs_storage::bench::LoadTestDatabase;
use tokio::time::sleep;

use super::cpu::{Cpu, Reading};
use super::fleet::{Fleet, Team};
use super::line::now;
use super::shape::Shape;
use super::step::{Load, Pickup, Step};
use super::traffic::Traffic;
use crate::cli::exit::CliError;

/// How long the load runs before the measurement starts, as a share of the measured time.
const WARM_UP: f64 = 0.2;

/// What all steps use.
pub(super) struct Bench<'a> {
    pub(super) database: &'a dyn LoadTestDatabase,
    pub(super) fleet: &'a Fleet,
    pub(super) cpu: Cpu,
    pub(super) shape: Shape,
}

impl Bench<'_> {
    /// Runs the load and measures it during `window`, which starts after a warm-up.
    pub(super) async fn measure(&self, load: Load, window: Duration) -> Result<Step, CliError> {
        self.database.empty().await?;
        let team = self.fleet.start(load.processes).await?;
        let step = tokio::select! {
            biased;
            problem = team.ended() => Err(problem),
            step = self.under_load(&team, load, window) => step,
        };
        self.fleet.stop().await;
        step
    }

    async fn under_load(&self, team: &Team, load: Load, window: Duration) -> Result<Step, CliError> {
        let mut traffic = Traffic::start(self.database, load, self.shape, team).await?;
        unless_failed(&mut traffic, window.mul_f64(WARM_UP)).await?;
        let before = self.read_counters(team, &traffic);
        unless_failed(&mut traffic, window).await?;
        let after = self.read_counters(team, &traffic);
        let database_connections = self.database.connections().await?;
        traffic.stop().await?;
        let waits = traffic.waits(team, before.time, after.time).await;

        let seconds = (after.at - before.at).as_secs_f64();
        let jobs = if load.keeps_work { after.done - before.done } else { after.enqueued - before.enqueued };
        let busy = before.cpu.until(&after.cpu);
        Ok(Step {
            processes: load.processes,
            connections: load.connections,
            batch: load.batch,
            seconds,
            jobs_per_second: jobs as f64 / seconds,
            pickup: Pickup::of(waits),
            database_processors: busy.database_processors,
            machine_busy: busy.machine,
            database_connections,
        })
    }

    fn read_counters(&self, team: &Team, traffic: &Traffic) -> Counters {
        Counters {
            at: Instant::now(),
            time: now(),
            enqueued: traffic.enqueued(),
            done: team.done(),
            cpu: self.cpu.read(),
        }
    }
}

/// The counters at one moment.
struct Counters {
    at: Instant,
    /// The same moment on the clock that all processes share.
    time: Duration,
    enqueued: u64,
    done: u64,
    cpu: Reading,
}

async fn unless_failed(traffic: &mut Traffic, span: Duration) -> Result<(), CliError> {
    tokio::select! {
        biased;
        problem = traffic.failed() => Err(problem),
        () = sleep(span) => Ok(()),
    }
}
