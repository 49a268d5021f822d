//! Steps of time: workers die, their jobs are rescued, history is pruned.

use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{RescuePolicy, Rescued};

use super::step::{Who, minutes};
use super::world::{Divergence, LEASE, World, agree, answered};
use crate::bench::{POLICY, StorageExt as _};
use crate::fixture::Fixture;

impl<F: Fixture> World<'_, F> {
    /// Lets time pass: all stored times are moved back. To a storage that is the same as if its clock had gone on.
    pub(super) async fn pass(&mut self, time: u64) -> Result<(), Divergence> {
        answered("moving the past back", self.client.execute(&F::passed(minutes(time))).await)?;
        self.model.pass(minutes(time));
        Ok(())
    }

    pub(super) async fn die(&mut self, who: Who) -> Result<(), Divergence> {
        let worker = self.worker(who);
        let silenced = format!("update {} set heartbeat_at = {} where id = '{worker}'", F::table("worker"), F::EPOCH);
        answered("silencing a worker", self.client.execute(&silenced).await)?;
        if let Some(worker_state) = self.model.workers.get_mut(&worker) {
            worker_state.heartbeat_at = chrono::DateTime::UNIX_EPOCH;
        }
        self.replace(who).await;
        Ok(())
    }

    pub(super) async fn leave(&mut self, who: Who) -> Result<(), Divergence> {
        let worker = self.worker(who);
        answered("deregister", self.db.storage.deregister(worker).await)?;
        self.model.workers.remove(&worker);
        self.replace(who).await;
        Ok(())
    }

    pub(super) async fn beat(&mut self, who: Who, drains: bool) -> Result<(), Divergence> {
        let worker = self.worker(who);
        let mut heartbeat = answered("open_heartbeat", self.db.storage.open_heartbeat(worker).await)?;
        let beaten = answered("beat", heartbeat.beat(drains, minutes(LEASE)).await)?;
        agree("whether the worker is on the list", &self.model.beat(worker, drains), &beaten.is_some())
    }

    pub(super) async fn rescue(&mut self, max_crashes: u16, orphans: bool) -> Result<(), Divergence> {
        let policy = RescuePolicy { max_crashes, orphans, ..POLICY };
        let mut rescued: Rescued = answered("rescue", self.db.storage.rescue(policy).await)?;
        rescued.returned.sort();
        rescued.discarded.sort();
        rescued.released.sort();
        let attempts = rescued.attempts.drain(..).count();
        agree("the crashed attempts", &(rescued.returned.len() + rescued.discarded.len()), &attempts)?;
        // A storage may free orphans without being asked to, if that costs it nothing.
        let is_orphan = |id: &JobId| {
            let worker = self.model.jobs.get(id).and_then(|job| job.worker);
            worker.is_some_and(|worker| !self.model.workers.contains_key(&worker))
        };
        let orphans = orphans || rescued.returned.iter().chain(&rescued.discarded).any(is_orphan);
        agree("the rescue", &self.model.rescue(policy, orphans), &rescued)
    }

    pub(super) async fn pause(&mut self, queue: &'static str, paused: bool) -> Result<(), Divergence> {
        let table = F::table("queue");
        let pause = format!(
            "insert into {table} (name, paused) values ('{queue}', {paused})
             on conflict (name) do update set paused = excluded.paused"
        );
        answered("pausing a queue", self.client.execute(&pause).await)?;
        if paused {
            self.model.paused.insert(queue);
        } else {
            self.model.paused.remove(queue);
        }
        Ok(())
    }

    /// If several jobs expire at about the same time, the storage may choose which of them are deleted.
    pub(super) async fn prune(&mut self, limit: usize) -> Result<(), Divergence> {
        let expired = self.model.expired();
        let pruned = answered("prune", self.db.storage.prune(limit).await)?;
        agree("how many are pruned", &expired.len().min(limit), &pruned)?;
        let left: Vec<JobId> = self.listed(&Default::default(), 10_000).await?.iter().map(|job| job.id).collect();
        let gone: Vec<JobId> = expired.iter().copied().filter(|id| !left.contains(id)).collect();
        agree("how many of those whose time has come are gone", &pruned, &gone.len())?;
        let ends = |id: &JobId| self.model.jobs[id].expires_at;
        let newest = gone.iter().filter_map(ends).max();
        let oldest = expired.iter().filter(|id| left.contains(id)).filter_map(ends).min();
        if let Some((newest, oldest)) = newest.zip(oldest)
            && newest > oldest + minutes(1)
        {
            return Err(format!("a job went whose time ended at {newest}, one stays whose time ended at {oldest}"));
        }
        self.model.jobs.retain(|id, _| !gone.contains(id));
        Ok(())
    }
}
