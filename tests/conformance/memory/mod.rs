//! The smallest storage with which a worker works: jobs in the memory of one process. It implements only the required
//! part of [`Storage`], which shows how much a new database needs before its first job runs.

mod fixture;
mod row;
mod working;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::{
    Beat, Cancelled, Chore, Claim, Crashed, CrashedAttempt, Finished, Heartbeat, Leases, Maintained, PassOn,
    QUARANTINED_COUNTS, RescuePolicy, Rescued, Storage, StorageResult, Waiting, WorkerInfo, quarantined_at_once,
};
use diesel_jobs_core::{ClaimedJob, Finish, Installation, JobId, JobState, Keep, Lease, WorkerId};

use self::row::Row;

/// A store that is shared like a database.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    jobs: BTreeMap<JobId, Row>,
    workers: HashMap<WorkerId, Worker>,
    /// How far the tests have moved the clock.
    passed: TimeDelta,
    last_id: i64,
}

struct Worker {
    info: WorkerInfo,
    beat: DateTime<Utc>,
    drains: bool,
}

impl Tables {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + self.passed
    }

    /// The waiting jobs that fit this claim, in the order in which they run.
    fn waiting(&self, claim: &Claim, quarantined: bool) -> Vec<JobId> {
        let fits = |row: &&Row| {
            row.waits()
                && claim.wanted.iter().any(|wanted| *wanted.queue == *row.job.queue)
                && claim.kinds.contains(&row.job.kind)
                && row.is_quarantined(claim) == quarantined
        };
        let mut rows: Vec<&Row> = self.jobs.values().filter(fits).collect();
        rows.sort_by_key(|row| (-i32::from(row.job.priority), row.job.run_at, row.job.id));
        rows.iter().map(|row| row.job.id).collect()
    }

    fn start(&mut self, job: JobId, worker: WorkerId) -> ClaimedJob {
        let now = self.now();
        self.jobs.get_mut(&job).expect("a waiting job is stored").start(worker, now)
    }
}

impl Memory {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl Storage for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        Ok(Installation::default())
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        let mut tables = self.tables();
        let beat = tables.now();
        tables.workers.insert(worker.id, Worker { info: worker.clone(), beat, drains: false });
        Ok(())
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.tables().workers.remove(&worker);
        Ok(())
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        Ok(Box::new(MemoryHeartbeat { memory: self.clone(), worker }))
    }

    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let mut tables = self.tables();
        if !tables.workers.contains_key(&claim.worker) {
            return Ok(Vec::new());
        }
        let now = tables.now();
        let mut due: Vec<JobId> = tables.waiting(claim, claim.only_quarantined);
        due.retain(|job| tables.jobs[job].job.run_at <= now);
        if claim.only_quarantined {
            let most = quarantined_at_once(tables.workers.len().try_into().unwrap_or(i64::MAX)).unsigned_abs();
            let counts = |row: &&Row| {
                row.lease().is_some()
                    && row.is_quarantined(claim)
                    && row.job.claimed_at > Some(now - QUARANTINED_COUNTS)
            };
            let is_free = (tables.jobs.values().filter(counts).count() as u64) < most;
            let first = due.first().filter(|_| is_free);
            return Ok(first.map(|job| tables.start(*job, claim.worker)).into_iter().collect());
        }
        let mut claimed = Vec::new();
        for wanted in &claim.wanted {
            let of_queue = due.iter().filter(|job| *tables.jobs[job].job.queue == *wanted.queue);
            let taken: Vec<JobId> = of_queue
                .take(wanted.total())
                .enumerate()
                .take_while(|(place, job)| *place < wanted.slots || !tables.jobs[job].is_at_risk())
                .map(|(_, job)| *job)
                .collect();
            claimed.extend(taken);
            claimed.truncate(claim.most.unwrap_or(usize::MAX));
        }
        claimed.sort_by_key(|job| due.iter().position(|one| one == job));
        Ok(claimed.into_iter().map(|job| tables.start(job, claim.worker)).collect())
    }

    async fn next_due(&self, claim: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>> {
        let tables = self.tables();
        if !matches!(waiting, Waiting::Available { .. }) {
            return Ok(None);
        }
        let due = tables.waiting(claim, false).into_iter().map(|job| tables.jobs[&job].job.run_at).min();
        Ok(due.map(|due| (due - tables.now()).to_std().unwrap_or_default()))
    }

    async fn finish(&self, batch: &[Finish], _: PassOn<'_>) -> StorageResult<Finished> {
        let mut tables = self.tables();
        let now = tables.now();
        let mut moved = Vec::new();
        for Finish { lease, transition, .. } in batch {
            let Some(row) = tables.jobs.get_mut(&lease.job).filter(|row| row.lease() == Some(*lease)) else { continue };
            if !row.finish(transition, now) {
                tables.jobs.remove(&lease.job);
            }
            moved.push(lease.job);
        }
        Ok(Finished { moved, ..Finished::default() })
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases> {
        let tables = self.tables();
        let held = tables.jobs.values().filter_map(Row::lease).filter(|lease| lease.worker == worker);
        let valid: Vec<_> = held.map(|Lease { job, number, .. }| (job, number)).collect();
        let asked: HashSet<&JobId> = among.unwrap_or_default().iter().collect();
        let is_cancelled = |row: &&Row| row.job.state == JobState::Cancelled && asked.contains(&row.job.id);
        let cancelled = tables.jobs.values().filter(is_cancelled).map(|row| Cancelled { job: row.job.id, by: None });
        Ok(Leases { valid, cancelled: cancelled.collect() })
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        let mut tables = self.tables();
        let now = tables.now();
        let mut rescued = Rescued::default();
        let is_dead = |worker: &Worker| worker.beat + worker.info.lease < now;
        if let Some(rescuer) = policy.rescuer {
            let is_as_expected = |worker: &Worker| {
                worker.beat >= rescuer.beat && (now - worker.beat).to_std().is_ok_and(|age| age <= rescuer.age)
            };
            rescued.held_off = !tables.workers.get(&rescuer.worker).is_some_and(is_as_expected);
        }
        let dead: Vec<WorkerId> =
            tables.workers.iter().filter(|(_, worker)| is_dead(worker)).map(|(id, _)| *id).collect();
        for dead in dead.into_iter().filter(|_| !rescued.held_off) {
            let worker = tables.workers.remove(&dead).expect("it was found above");
            let of_worker = |row: &&mut Row| row.lease().is_some_and(|lease| lease.worker == dead);
            let rows: Vec<&mut Row> = tables.jobs.values_mut().filter(of_worker).collect();
            let alone = rows.len() == 1;
            for row in rows {
                let (attempt, max_attempts) = (row.job.attempt, row.job.max_attempts);
                let kills = worker.drains.then(|| row.kills());
                let decision = policy.decide(Crashed { attempt, max_attempts, crashes: row.job.crashes, alone, kills });
                row.rescue(&worker.info, decision, Keep::For(policy.retention.discarded), now);
                let (queue, kind) = (row.job.queue.clone(), row.job.kind.clone());
                let discarded = decision.discard_reason.is_some();
                match (decision.released, discarded) {
                    (true, _) => rescued.released.push(row.job.id),
                    (_, true) => rescued.discarded.push(row.job.id),
                    (_, false) => rescued.returned.push(row.job.id),
                }
                rescued.attempts.extend((!decision.released).then_some(CrashedAttempt { queue, kind, discarded }));
            }
        }
        let waits = |row: &Row| row.waits() && row.job.crashes >= policy.quarantined_at() && row.job.run_at <= now;
        rescued.quarantined_due = tables.jobs.values().any(waits);
        Ok(rescued)
    }

    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained> {
        let Chore::Prune = chore else { return Ok(Maintained::default()) };
        let mut tables = self.tables();
        let now = tables.now();
        let over = tables.jobs.values().filter(|row| row.delete_at.is_some_and(|at| at < now)).take(limit);
        let over: Vec<JobId> = over.map(|row| row.job.id).collect();
        over.iter().for_each(|job| drop(tables.jobs.remove(job)));
        Ok(Maintained::batch(over.len(), limit))
    }
}

struct MemoryHeartbeat {
    memory: Memory,
    worker: WorkerId,
}

#[async_trait]
impl Heartbeat for MemoryHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        let mut tables = self.memory.tables();
        let at = tables.now();
        let Some(worker) = tables.workers.get_mut(&self.worker) else { return Ok(None) };
        (worker.beat, worker.info.lease) = (at, lease);
        worker.drains |= drains;
        Ok(Some(Beat { at, frozen: false, asked: None }))
    }

    async fn leases(&mut self) -> StorageResult<Vec<(JobId, i32)>> {
        Ok(self.memory.leases(self.worker, None).await?.valid)
    }

    async fn release(&mut self, leases: &[Lease]) -> StorageResult<Vec<JobId>> {
        let releases: Vec<Finish> = leases.iter().copied().map(Finish::release).collect();
        Ok(self.memory.finish(&releases, PassOn::Nothing).await?.moved)
    }
}
