//! Runs steps on a storage and on the model, and compares every result.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use chrono::Utc;
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{Operated, RescanReason};
use diesel_jobs_core::{ClaimedJob, JobId, Lease, WorkerId};
use diesel_jobs_storage::Database;

use super::state::{ModelState, WorkerState};
use super::step::{Pick, Step, Who, minutes};
use crate::bench::worker_for;
use crate::client::Client;
use crate::fixture::Fixture;

/// The text of a difference between storage and model.
pub(super) type Divergence = String;

/// The lease time of the workers, in minutes.
pub(super) const LEASE: u64 = 90;

/// A storage and its model, and the state of the application and of the workers.
pub(super) struct World<'f, F> {
    fixture: PhantomData<F>,
    pub(super) db: Database,
    pub(super) client: &'f mut dyn Client,
    pub(super) model: ModelState,
    working: Vec<WorkerId>,
    former: Vec<WorkerId>,
    stranger: WorkerId,
    /// Every job that was ever enqueued.
    pub(super) ids: Vec<JobId>,
    /// Every lease that was ever assigned, the oldest first. `claimed` has the job of each.
    granted: Vec<Lease>,
    pub(super) claimed: HashMap<Lease, ClaimedJob>,
}

/// Returns an error if the results differ.
pub(super) fn agree<T: PartialEq + Debug>(what: &str, model: &T, storage: &T) -> Result<(), Divergence> {
    if model == storage {
        return Ok(());
    }
    Err(format!("{what}\n    model:   {model:?}\n    storage: {storage:?}"))
}

/// Turns an error of the storage into a divergence. No step should cause one.
pub(super) fn answered<T, E: Debug>(what: &str, answer: Result<T, E>) -> Result<T, Divergence> {
    answer.map_err(|error| format!("{what} failed: {error:?}"))
}

/// Runs a model on an emptied database. Compares everything that the storage returns at its end.
pub(super) async fn play<F: Fixture>(fixture: &F, client: &mut dyn Client, steps: &[Step]) -> Result<(), Divergence> {
    let mut world = World::new(fixture, client).await;
    for (index, step) in steps.iter().enumerate() {
        let at = |divergence| format!("step {index}, {step:?}: {divergence}");
        world.perform(step).await.map_err(at)?;
        world.compare_jobs().await.map_err(at)?;
    }
    world.compare_rest().await.map_err(|divergence| format!("at the end: {divergence}"))
}

impl<'f, F: Fixture> World<'f, F> {
    async fn new(fixture: &'f F, client: &'f mut dyn Client) -> Self {
        for table in F::TABLES {
            client.execute(&format!("delete from {}", F::table(table))).await.unwrap();
        }
        client.execute("delete from effect").await.unwrap();
        let mut world = World {
            fixture: PhantomData,
            db: fixture.database().clone(),
            client,
            model: ModelState { now: Utc::now(), ..ModelState::default() },
            working: Vec::new(),
            former: Vec::new(),
            stranger: WorkerId::generate(),
            ids: Vec::new(),
            granted: Vec::new(),
            claimed: HashMap::new(),
        };
        for _ in 0..2 {
            let started = world.start().await;
            world.working.push(started);
        }
        world
    }

    async fn perform(&mut self, step: &Step) -> Result<(), Divergence> {
        self.model.now = Utc::now();
        match step {
            Step::Enqueue(new) => self.enqueue(std::slice::from_ref(new), false).await,
            Step::EnqueueAll(new) => self.enqueue(new, true).await,
            Step::RolledBack(new) => self.roll_back(new).await,
            Step::Admit => self.admit().await,
            Step::EndFull => self.end_full().await,
            Step::Claim(ask) => self.claim(ask).await,
            Step::ClaimQuarantined(ask) => self.claim_quarantined(ask).await,
            Step::Finish(batch) => self.finish(batch).await,
            Step::FinishAndPassOn(batch, next) => self.finish_and_pass_on(batch, next.as_ref()).await,
            Step::Transact(batch, connection, works) => self.transact(batch, *connection, *works).await,
            Step::CompleteIn(pick, commit) => self.complete_in(*pick, *commit).await,
            Step::Pass(time) => self.pass(*time).await,
            Step::Die(who) => self.die(*who).await,
            Step::Leave(who) => self.leave(*who).await,
            Step::Register(who) => {
                let worker = self.worker(*who);
                self.register(worker).await
            }
            Step::Beat(who) => self.beat(*who, false).await,
            Step::Drain(who) => self.beat(*who, true).await,
            Step::Rescue(max_crashes, orphans) => self.rescue(*max_crashes, *orphans).await,
            Step::Cancel(place) => {
                let id = self.id(*place);
                let answer = answered("cancel", self.db.operator.cancel(id).await)?;
                agree::<Operated>("cancel", &self.model.cancel(id), &answer)
            }
            Step::Retry(place) => {
                let id = self.id(*place);
                let answer = answered("retry", self.db.operator.retry(id).await)?;
                agree::<Operated>("retry", &self.model.retry(id), &answer)
            }
            Step::Pause(queue, paused) => self.pause(queue, *paused).await,
            Step::Freeze => {
                let frozen = answered("freeze", self.db.operator.freeze("the model", "it is a step").await)?;
                agree("whether it was frozen now", &!std::mem::replace(&mut self.model.frozen, true), &frozen)
            }
            Step::Thaw => {
                let thawed = answered("thaw", self.db.operator.thaw("the model").await)?;
                agree("whether it was thawed now", &std::mem::take(&mut self.model.frozen), &thawed)
            }
            Step::CancelAll => {
                let everything = self.model.now + chrono::TimeDelta::days(1);
                let cancelled = self.db.operator.cancel_enqueued_before(everything, 10_000, "the model").await;
                agree("how many were cancelled", &self.model.cancel_all(), &answered("cancelling all", cancelled)?)
            }
            Step::Prune(limit) => self.prune(*limit).await,
            Step::Compare => self.compare_rest().await,
        }
    }

    /// Registers a worker, and returns its id.
    pub(super) async fn start(&mut self) -> WorkerId {
        let worker = worker_for(&self.db, minutes(LEASE)).await;
        self.model.workers.insert(worker, Self::worker_state(&self.model));
        worker
    }

    fn worker_state(model: &ModelState) -> WorkerState {
        WorkerState { heartbeat_at: model.now, lease: minutes(LEASE), drains: false }
    }

    async fn register(&mut self, worker: WorkerId) -> Result<(), Divergence> {
        answered("register", self.db.storage.register(&crate::bench::info(worker, minutes(LEASE))).await)?;
        self.model.workers.insert(worker, Self::worker_state(&self.model));
        Ok(())
    }

    /// Starts another worker in the place of a working one.
    pub(super) async fn replace(&mut self, who: Who) {
        if let Who::At(place) = who {
            let started = self.start().await;
            let place = place % self.working.len();
            self.former.push(std::mem::replace(&mut self.working[place], started));
        }
    }

    pub(super) fn worker(&self, who: Who) -> WorkerId {
        match who {
            Who::At(place) => self.working[place % self.working.len()],
            Who::Former => self.former.last().copied().unwrap_or(self.stranger),
            Who::Stranger => self.stranger,
        }
    }

    /// All workers, former ones included, and one that never registered.
    pub(super) fn workers(&self) -> Vec<WorkerId> {
        self.working.iter().chain(&self.former).copied().chain([self.stranger]).collect()
    }

    /// Returns the id of the job at this place, the newest first. After the oldest comes an id without a job.
    fn id(&self, place: usize) -> JobId {
        let place = place % (self.ids.len() + 1);
        self.ids.iter().rev().nth(place).copied().unwrap_or(JobId(i64::MAX))
    }

    /// Returns `None` if there is no such lease now.
    pub(super) fn pick(&self, pick: Pick) -> Option<ClaimedJob> {
        let standing = |place: usize| {
            let leases = self.model.leases();
            leases.get(place % leases.len().max(1)).map(|lease| self.claimed[lease].clone())
        };
        let mut job = match pick {
            Pick::Granted(place) => {
                let lease = self.granted.iter().rev().nth(place % self.granted.len().max(1))?;
                return self.claimed.get(lease).cloned();
            }
            Pick::Standing(place) | Pick::Renumbered(place, _) | Pick::Stolen(place, _) | Pick::Misplaced(place) => {
                standing(place)?
            }
        };
        match pick {
            Pick::Standing(_) | Pick::Granted(_) => {}
            Pick::Renumbered(_, by) => job.lease.number += by,
            Pick::Stolen(_, who) => job.lease.worker = self.worker(who),
            Pick::Misplaced(_) => job.lease.job.0 += 1,
        }
        // By chance it may be a valid lease of another job. Then the flags must be those of that job.
        if let Some(known) = self.model.jobs.get(&job.lease.job) {
            job.flags = JobFlags(known.flags());
        }
        Some(job)
    }

    pub(super) fn grant(&mut self, job: ClaimedJob) {
        self.granted.push(job.lease);
        self.claimed.insert(job.lease, job);
    }

    /// Makes the storage rescan. A storage does not search below its scan floors, and rescans only every second. The
    /// model has no such delay.
    pub(super) async fn rescan(&mut self, claim: &diesel_jobs_core::storage::Claim) -> Result<(), Divergence> {
        let alone = diesel_jobs_core::storage::Claim { bypass_limit: true, ..claim.clone() };
        answered("rescan", self.db.storage.rescan(&alone, RescanReason::Requested).await).map(drop)
    }
}
