//! The leases that this process holds. A drain waits until there are none. When the leases are lost or the worker
//! stops, all their handlers are asked to stop at once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

use crate::context::JobContext;
use crate::lease::{Lease, WorkerId};

/// How many invalid leases are remembered. They matter only for a moment after a crash of the database.
const MOST_INVALID: usize = 10_000;

#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<Held>,
    /// Notified when leases have ended.
    ended: Notify,
}

#[derive(Default)]
struct Held {
    leases: HashMap<Lease, JobContext, FxBuildHasher>,
    /// Leases that ended here although nothing was written under them.
    invalid: HashSet<Lease, FxBuildHasher>,
    /// The ids of this process that were declared dead. That is rare, so the list stays short.
    dead: Vec<WorkerId>,
    /// The worker has asked its handlers to stop.
    stopping: bool,
}

impl Held {
    fn lose(&self, worker: WorkerId) -> usize {
        let of_worker = self.leases.values().filter(|ctx| ctx.lease().worker == worker && !ctx.is_completed_in());
        of_worker.map(|ctx| ctx.stop().lose()).count()
    }

    fn invalidate(&mut self, lease: &Lease) {
        if self.invalid.len() == MOST_INVALID {
            self.invalid.clear();
        }
        self.invalid.insert(*lease);
    }
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while the lock is held, and the map is never left in an invalid state.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the leases of these jobs until [`end`](Self::end). Returns the jobs that may run.
    ///
    /// A lease that is held already or is [invalid](Self::invalidate) is left out. The commit of a claim does not wait
    /// for the disk. So a crash of the database may undo the claim, and then a later claim grants the same lease again.
    /// Only one attempt may ever run under a lease. A lease of an id that was [declared dead](Self::declare_dead) is
    /// left out, too: the answer to its claim came too late.
    pub(crate) fn begin(&self, mut jobs: Vec<JobContext>) -> Vec<JobContext> {
        let mut held = self.lock();
        if held.stopping {
            jobs.iter().for_each(|ctx| ctx.stop().ask());
        }
        let Held { leases, invalid, dead, .. } = &mut *held;
        jobs.retain(|ctx| !dead.contains(&ctx.lease().worker));
        jobs.retain(|ctx| match leases.entry(ctx.lease()) {
            Entry::Vacant(place) if invalid.is_empty() || !invalid.contains(&ctx.lease()) => {
                place.insert(ctx.clone());
                true
            }
            _ => false,
        });
        jobs
    }

    /// Ends these leases. Their finishes were written, and a crash of the database does not undo them.
    pub(crate) fn end<'a>(&self, leases: impl IntoIterator<Item = &'a Lease>) {
        let mut held = self.lock();
        for lease in leases {
            held.leases.remove(lease);
        }
        self.ended.notify_waiters();
    }

    /// Ends this lease and remembers it as invalid. Nothing was written under it, and nothing will be.
    pub(crate) fn invalidate(&self, lease: &Lease) {
        let mut held = self.lock();
        held.leases.remove(lease);
        held.invalidate(lease);
        drop(held);
        self.ended.notify_waiters();
    }

    /// Remembers those of these leases as invalid that are not held. So the answer to a claim that comes too late
    /// begins none of them. Returns them.
    pub(crate) fn invalidate_unknown(&self, mut leases: Vec<Lease>) -> Vec<Lease> {
        let mut held = self.lock();
        leases.retain(|lease| !held.leases.contains_key(lease));
        leases.iter().for_each(|lease| held.invalidate(lease));
        leases
    }

    /// The leases that are held now.
    pub(crate) fn held(&self) -> Vec<Lease> {
        self.lock().leases.keys().copied().collect()
    }

    /// The attempts whose handlers are running, each with its time so far.
    pub(crate) fn running(&self) -> Vec<(JobContext, Duration)> {
        self.lock().leases.values().filter_map(|ctx| Some((ctx.clone(), ctx.running()?))).collect()
    }

    /// Withdraws the attempts that have waited here for this long and have not begun. The caller must release their
    /// jobs.
    pub(crate) fn withdraw(&self, waited: Duration) -> Vec<JobContext> {
        let held = self.lock();
        held.leases.values().filter(|ctx| ctx.held_for() >= waited && ctx.withdraw()).cloned().collect()
    }

    /// Those of these leases that are held and whose attempts have not completed their jobs themselves.
    pub(crate) fn among(&self, leases: &[Lease]) -> Vec<JobContext> {
        let held = self.lock();
        let found = leases.iter().filter_map(|lease| held.leases.get(lease));
        found.filter(|ctx| !ctx.is_completed_in()).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().leases.len()
    }

    /// Marks this lease as lost and asks its attempt to stop. An attempt that has completed its job in its own
    /// transaction is not asked. Its lease has ended because of that commit, and the handler may continue.
    pub(crate) fn lose_one(&self, lease: &Lease) {
        if let Some(ctx) = self.lock().leases.get(lease).filter(|ctx| !ctx.is_completed_in()) {
            ctx.stop().lose();
        }
    }

    /// Loses all leases of this worker id, in the same way as [`lose_one`](Self::lose_one). Returns how many.
    pub(crate) fn lose(&self, worker: WorkerId) -> usize {
        self.lock().lose(worker)
    }

    /// This worker id was declared dead. Loses all its leases, and [`begin`](Self::begin) leaves out any further lease
    /// of it. Returns how many were lost.
    pub(crate) fn declare_dead(&self, worker: WorkerId) -> usize {
        let mut held = self.lock();
        held.dead.push(worker);
        held.lose(worker)
    }

    /// Asks all handlers to stop, including those that start later.
    pub(crate) fn stop_all(&self) {
        let mut held = self.lock();
        held.stopping = true;
        held.leases.values().for_each(|ctx| ctx.stop().ask());
    }

    /// Waits until no lease is held.
    pub(crate) async fn none_held(&self) {
        self.until(|held| held.leases.is_empty()).await;
    }

    /// Waits until no lease is held except this one.
    pub(crate) async fn no_other_held(&self, lease: &Lease) {
        self.until(|held| held.leases.keys().all(|held| held == lease)).await;
    }

    /// Waits until this lease has ended.
    pub(crate) async fn not_held(&self, lease: &Lease) {
        self.until(|held| !held.leases.contains_key(lease)).await;
    }

    async fn until(&self, condition: impl Fn(&Held) -> bool) {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            // Registered before the check, so that a lease that ends in between is not missed.
            ended.as_mut().enable();
            if condition(&self.lock()) {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::Utc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::flags::JobFlags;
    use crate::job_id::JobId;
    use crate::lease::ClaimedJob;

    fn job(worker: WorkerId, number: i32) -> JobContext {
        let now = Utc::now();
        let job = ClaimedJob {
            lease: Lease { job: JobId(1), number, worker },
            flags: JobFlags::default(),
            kind: "k".to_owned(),
            queue: "q".to_owned(),
            priority: 0,
            args: b"{}".to_vec(),
            attempt: 1,
            max_attempts: 25,
            run_at: now,
            enqueued_at: now,
            claimed_at: now,
            traceparent: None,
            start_by: None,
        };
        JobContext::new(job, CancellationToken::new(), Arc::default())
    }

    #[test]
    fn a_lease_granted_again_is_not_begun_again() {
        let (leases, worker) = (Leases::default(), WorkerId::generate());
        assert_eq!(leases.begin(vec![job(worker, 1)]).len(), 1);
        assert_eq!(leases.begin(vec![job(worker, 1), job(worker, 2)]).len(), 1, "only the new one");
        leases.end([&job(worker, 1).lease()]);
        assert_eq!(leases.begin(vec![job(worker, 1)]).len(), 1, "no attempt runs under it any more");
        leases.invalidate(&job(worker, 1).lease());
        assert_eq!(
            leases.begin(vec![job(worker, 1), job(worker, 3)]).len(),
            1,
            "nothing may be written under the first"
        );
    }

    #[test]
    fn a_lease_of_an_id_that_was_declared_dead_is_not_begun() {
        let (leases, worker) = (Leases::default(), WorkerId::generate());
        let begun = leases.begin(vec![job(worker, 1)]);
        assert_eq!(leases.declare_dead(worker), 1);
        assert!(begun[0].stop().is_lost());
        assert_eq!(leases.begin(vec![job(worker, 2), job(WorkerId::generate(), 2)]).len(), 1, "only the other id's");
    }

    #[test]
    fn a_lease_that_was_given_up_before_it_was_known_is_not_begun() {
        let (leases, worker) = (Leases::default(), WorkerId::generate());
        leases.begin(vec![job(worker, 1)]);
        let [known, unknown] = [1, 2].map(|number| job(worker, number).lease());
        assert_eq!(leases.invalidate_unknown(vec![known, unknown]), [unknown]);
        assert!(leases.begin(vec![job(worker, 2)]).is_empty(), "the answer has come too late");
        assert_eq!(leases.held(), [known]);
    }

    #[test]
    fn an_attempt_begins_or_is_withdrawn_and_never_both() {
        let (leases, worker) = (Leases::default(), WorkerId::generate());
        let begun = leases.begin(vec![job(worker, 1), job(worker, 2)]);
        assert!(begun[0].begin());
        assert!(leases.withdraw(Duration::from_secs(3600)).is_empty(), "they have just come");
        let withdrawn = leases.withdraw(Duration::ZERO);
        assert_eq!(withdrawn.iter().map(JobContext::lease).collect::<Vec<_>>(), [begun[1].lease()]);
        assert!(begun[0].begin() && !begun[1].begin());
        assert!(leases.withdraw(Duration::ZERO).is_empty(), "once");
    }

    #[test]
    fn an_attempt_that_has_completed_its_job_itself_is_left_alone() {
        let (leases, worker) = (Leases::default(), WorkerId::generate());
        let begun = leases.begin(vec![job(worker, 1)]);
        begun[0].mark_completed_in();
        leases.lose_one(&begun[0].lease());
        assert_eq!((leases.lose(worker), leases.declare_dead(worker)), (0, 0));
        assert!(!begun[0].is_cancelled());
    }
}
