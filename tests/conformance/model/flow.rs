//! Limits, sequences and unique keys in the model, and their comparison with the tables of the storage.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use diesel_jobs_core::{Enqueued, JobId, JobState};

use super::state::{Job, ModelState};
use super::step::{Flow, LimitKey, New, User};
use super::world::{Divergence, World, agree, answered};
use crate::fixture::Fixture;

/// The most passes of admission in a row.
const PASSES: usize = 10;

/// The job that has the permit of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) job: JobId,
    /// Whether it was discarded, and the others wait.
    pub(super) halted: bool,
}

/// The job that has a unique key, or had it last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) job: JobId,
}

impl ModelState {
    /// Admits held jobs as far as their limits allow it. Returns how many.
    pub(super) fn admit(&mut self) -> usize {
        self.forget_last_tenants();
        let flows: Vec<Flow> = self.jobs.values().filter(|job| job.held).map(|job| job.flow).collect();
        let mut admitted = BTreeSet::new();
        for limit in flows.iter().filter_map(|flow| flow.limit()).collect::<BTreeSet<LimitKey>>() {
            let in_order = self.in_order(limit);
            let has_tenants = in_order.iter().any(|id| matches!(self.jobs[id].flow, Flow::Fair(..)));
            admitted.extend(if has_tenants {
                self.in_turns(limit, &in_order)
            } else {
                in_order.into_iter().take(self.free(limit)).collect()
            });
        }
        for flow in flows {
            if let Flow::Sequence(key, _) = flow {
                admitted.extend(self.next_in_sequence(key));
            }
        }
        for id in &admitted {
            let now = self.now;
            let Some(job) = self.jobs.get_mut(id) else { continue };
            job.held = false;
            (job.run_at, job.run_at_is_exact) = (now, false);
            if let Flow::Sequence(key, _) = job.flow {
                self.turns.insert(key, Turn { job: *id, halted: false });
            }
        }
        admitted.len()
    }

    /// Whether a held job may start now, apart from its limit.
    fn may_start(&self, job: &Job) -> bool {
        job.held && job.run_at <= self.now && !self.paused.contains(job.queue) && !self.frozen
    }

    /// The held jobs of this limit that may start, best first.
    pub(super) fn in_order(&self, limit: LimitKey) -> Vec<JobId> {
        let held = self.jobs.iter().filter(|(_, job)| job.flow.limit() == Some(limit) && self.may_start(job));
        let mut held: Vec<_> = held.map(|(id, job)| (Reverse(job.priority), job.run_at, *id)).collect();
        held.sort();
        held.into_iter().map(|(.., id)| id).collect()
    }

    /// The jobs that have a permit of this limit, the oldest first.
    pub(super) fn with_permit(&self, limit: LimitKey) -> Vec<JobId> {
        let with_permit = self.jobs.iter().filter(|(_, job)| job.flow.limit() == Some(limit) && job.has_limit_permit());
        with_permit.map(|(id, _)| *id).collect()
    }

    /// How many permits of this limit are free.
    pub(super) fn free(&self, limit: LimitKey) -> usize {
        (limit.2 as usize).saturating_sub(self.with_permit(limit).len())
    }

    /// The job that has the permit, if it is held, else the one with the lowest id. A job that may not start stops
    /// those behind it.
    fn next_in_sequence(&self, key: &str) -> Option<JobId> {
        let of_key = |job: &Job| job.held && matches!(job.flow, Flow::Sequence(own, _) if own == key);
        let mut held = self.jobs.iter().filter(|(_, job)| of_key(job));
        let next = match self.turns.get(key) {
            Some(turn) => held.find(|(id, _)| **id == turn.job),
            None => held.next(),
        };
        next.filter(|(_, job)| self.may_start(job)).map(|(id, _)| *id)
    }

    /// Gives back what a job has that ends in this state: its turn, and its unique key.
    pub(super) fn give_back(&mut self, id: JobId, state: JobState) {
        self.keys.retain(|_, key| key.job != id);
        let Some(Flow::Sequence(key, halts)) = self.jobs.get(&id).map(|job| job.flow) else { return };
        let Some(turn) = self.turns.get_mut(key).filter(|turn| turn.job == id) else { return };
        if state == JobState::Discarded && halts {
            turn.halted = true;
        } else {
            self.turns.remove(key);
        }
    }

    /// Enqueues a job that gets this id if it is new, and returns the answer.
    pub(super) fn take_key(&mut self, new: &New, args: String, id: JobId) -> Enqueued {
        let run_at = self.now + new.delay();
        let is_later = run_at > self.now;
        let Some(user) = new.unique else {
            self.jobs.insert(id, self.newborn(new, args));
            return Enqueued::new(id);
        };
        if let Some(Key { job: holder }) = self.keys.get(&(new.kind, user)).copied()
            && let Some(job) = self.jobs.get_mut(&holder)
        {
            let waits = job.state == JobState::Available && (job.attempt == 0 || user != User::Started);
            let runs = job.state == JobState::Running && user != User::Started;
            if waits && user == User::Replaced {
                (job.args, job.priority) = (args, new.priority);
                (job.run_at, job.run_at_is_exact) = (run_at, false);
                // A job that was admitted and is scheduled again gives its permit back. In a sequence it keeps its
                // turn.
                job.held |= is_later && job.flow != Flow::Free;
                return Enqueued::replaced(holder);
            }
            if waits || runs {
                return Enqueued::existing(holder);
            }
        }
        self.keys.insert((new.kind, user), Key { job: id });
        self.jobs.insert(id, self.newborn(new, args));
        Enqueued::new(id)
    }

    /// Returns a job that was just enqueued.
    fn newborn(&self, new: &New, args: String) -> Job {
        Job {
            kind: new.kind,
            queue: new.queue,
            priority: new.priority,
            max_attempts: new.max_attempts,
            args,
            state: JobState::Available,
            attempt: 0,
            crashes: 0,
            lease: 0,
            worker: None,
            run_at: self.now + new.delay(),
            run_at_is_exact: false,
            enqueued_at: None,
            claimed_at: None,
            expires_at: None,
            failures: Vec::new(),
            flow: new.flow,
            held: new.flow != Flow::Free,
            unique: new.unique,
        }
    }
}

impl Job {
    /// Whether it has a limit, no sequence, and a permit.
    fn has_limit_permit(&self) -> bool {
        self.flow.limit().is_some()
            && (self.state == JobState::Running || self.state == JobState::Available && !self.held)
    }
}

impl<F: Fixture> World<'_, F> {
    pub(super) async fn admit(&mut self) -> Result<(), Divergence> {
        self.admit_after(0).await
    }

    /// The passes after a finish that has already made this many jobs available.
    pub(super) async fn admit_after(&mut self, passed_on: usize) -> Result<(), Divergence> {
        let mut admitted = passed_on;
        for pass in 0.. {
            if pass == PASSES {
                return Err("passes of admission do not end".to_owned());
            }
            let found = answered("admit", self.db.storage.admit(true).await)?;
            admitted += found.admitted;
            if found.admitted == 0 && !found.more {
                break;
            }
        }
        agree("how many are admitted", &self.model.admit(), &admitted)
    }

    /// Compares the permits and the unique keys: how many there are, and the sum of the ids of their jobs. A halted
    /// permit counts thrice.
    pub(super) async fn compare_flow(&mut self) -> Result<(), Divergence> {
        let limited = self.model.jobs.iter().filter(|(_, job)| job.has_limit_permit()).map(|(id, _)| id.0);
        let turns = self.model.turns.values().map(|turn| if turn.halted { 3 * turn.job.0 } else { turn.job.0 });
        let permits: Vec<i64> = limited.chain(turns).collect();
        let keys: Vec<i64> = self.model.keys.values().map(|key| key.job.0).collect();
        let (permit, key) = (F::table("permit"), F::table("unique_key"));
        let halted = "case when halted_at is null then job_id else 3 * job_id end";
        for (what, model, table, ids) in [("permits", permits, permit, halted), ("unique keys", keys, key, "job_id")] {
            let rows = format!("select count(*) as number from {table}");
            let sum = format!("select cast(coalesce(sum({ids}), 0) as bigint) as number from {table}");
            let stored = (self.client.number(&rows).await, self.client.number(&sum).await);
            let number = i64::try_from(model.len()).map_err(|error| error.to_string())?;
            agree(
                &format!("the {what}: their number, and the sum of their jobs"),
                &(number, model.iter().sum()),
                &stored,
            )?;
        }
        Ok(())
    }
}
