//! Compares everything that a storage returns with the model.

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::JobFilter;
use diesel_jobs_core::{AttemptError, JobId, JobRecord, JobState};

use super::state::{Failed, Job};
use super::step::{Ask, Who};
use super::working::EFFECT;
use super::world::{Divergence, World, agree, answered};
use crate::bench::ANY_TIME;
use crate::fixture::Fixture;

/// The longest time that a statement may take. All times in the model are minutes apart.
const A_MOMENT: TimeDelta = TimeDelta::seconds(20);

fn is_about(one: DateTime<Utc>, other: DateTime<Utc>) -> bool {
    (one - other).abs() < A_MOMENT
}

impl<F: Fixture> World<'_, F> {
    /// Returns all jobs that match the filter.
    pub(super) async fn listed(&self, filter: &JobFilter, limit: usize) -> Result<Vec<JobRecord>, Divergence> {
        answered("list", self.db.operator.list_all(filter, limit).await)
    }

    /// Compares every job, except its failures. The model takes over times that the storage has newly set.
    pub(super) async fn compare_jobs(&mut self) -> Result<(), Divergence> {
        let records = self.listed(&JobFilter::default(), 10_000).await?;
        let ids: Vec<JobId> = records.iter().map(|record| record.id).collect();
        agree("the jobs", &self.model.jobs.keys().rev().copied().collect::<Vec<_>>(), &ids)?;
        for record in &records {
            let job = self.model.jobs.get_mut(&record.id).expect("the same jobs");
            compare_job(job, record).map_err(|divergence| format!("job {}: {divergence}", record.id))?;
        }
        self.compare_flow().await
    }

    /// Compares everything else.
    pub(super) async fn compare_rest(&mut self) -> Result<(), Divergence> {
        self.compare_failures().await?;
        self.compare_lists().await?;
        self.compare_stats().await?;
        self.compare_workers().await?;
        self.compare_next_due().await
    }

    async fn compare_failures(&mut self) -> Result<(), Divergence> {
        for (id, job) in &self.model.jobs {
            let shown = answered("show", self.db.operator.show(*id).await)?;
            let Some((_, failures)) = shown else { return Err(format!("job {id} is not shown")) };
            let as_model = |(failure, model): (&AttemptError, Option<&Failed>)| Failed {
                attempt: failure.attempt,
                kind: failure.kind,
                message: model.and_then(|model| model.message.as_ref()).map(|_| failure.message.clone()),
            };
            let models = job.failures.iter().map(Some).chain(std::iter::repeat(None));
            let failures: Vec<Failed> = failures.iter().zip(models).map(as_model).collect();
            agree(&format!("the failures of job {id}"), &job.failures, &failures)?;
        }
        let gone = self.ids.iter().find(|id| !self.model.jobs.contains_key(id)).copied().unwrap_or(JobId(i64::MAX));
        agree("a job that is gone", &false, &answered("show", self.db.operator.show(gone).await)?.is_some())?;
        // No failure of a deleted job is left.
        let failures: usize = self.model.jobs.values().map(|job| job.failures.len()).sum();
        let stored = format!("select count(*) as number from {}", F::table("job_error"));
        agree("all failures", &failures, &usize::try_from(self.client.number(&stored).await).unwrap())?;
        let large = self.model.jobs.values().filter(|job| job.args.len() > 50_000).count();
        agree("all large arguments", &large, &usize::try_from(self.client.number(F::payloads()).await).unwrap())
    }

    async fn compare_lists(&self) -> Result<(), Divergence> {
        let all = 10_000;
        let of_states = JobState::ALL.map(|state| (JobFilter::of_state(state), all));
        let filters = of_states.into_iter().chain([(JobFilter::of_queue("mail"), all), (JobFilter::of_kind("a"), 2)]);
        let now = Utc::now();
        // Due at about this moment: it may be due or not.
        let is_open = |job: &Job| job.state == JobState::Available && is_about(job.run_at, now);
        for (filter, limit) in filters {
            let fits = |job: &Job| {
                filter.states.iter().all(|state| job.state_at(now) == *state && !is_open(job))
                    && filter.queues.iter().all(|queue| job.queue == queue)
                    && filter.kinds.iter().all(|kind| job.kind == kind)
            };
            let fitting = self.model.jobs.iter().rev().filter(|(_, job)| fits(job)).map(|(id, _)| *id);
            let expected: Vec<JobId> = fitting.take(limit).collect();
            let mut listed: Vec<JobId> = self.listed(&filter, limit).await?.iter().map(|record| record.id).collect();
            listed.retain(|id| filter.states.is_empty() || self.model.jobs.get(id).is_none_or(|job| !is_open(job)));
            agree(&format!("the list of {filter:?}"), &expected, &listed)?;
        }
        Ok(())
    }

    async fn compare_stats(&mut self) -> Result<(), Divergence> {
        self.model.now = Utc::now();
        let (mut expected, mut stats) = (self.model.stats(), answered("stats", self.db.operator.stats().await)?.kinds);
        for (expected, row) in expected.iter_mut().zip(&mut stats) {
            if let (Some(model), Some(storage)) = (expected.oldest_wait_seconds, row.oldest_wait_seconds)
                && (model - storage).abs() < A_MOMENT.as_seconds_f64()
            {
                (expected.oldest_wait_seconds, row.oldest_wait_seconds) = (None, None);
            }
        }
        agree("the stats", &expected, &stats)?;
        let effects = format!("select count(*) as number from effect where name = '{EFFECT}'");
        agree("the effects", &self.model.effects, &self.client.number(&effects).await)
    }

    async fn compare_workers(&mut self) -> Result<(), Divergence> {
        self.model.now = Utc::now();
        let listed = answered("workers", self.db.operator.workers().await)?;
        let mut listed: Vec<_> = listed.iter().map(|worker| (worker.id, worker.alive)).collect();
        listed.sort();
        let expected: Vec<_> = self.model.workers.keys().map(|id| (*id, !self.model.is_dead(*id))).collect();
        agree("the workers and whether they are alive", &expected, &listed)?;
        for worker in self.workers() {
            let held = self.model.leases().into_iter().filter(|lease| lease.worker == worker);
            let held: Vec<(JobId, i32)> = held.map(|lease| (lease.job, lease.number)).collect();
            let mut all = answered("leases", self.db.storage.leases(worker, None).await)?.valid;
            all.sort();
            agree("the leases still held", &held, &all)?;
            let among: Vec<JobId> = self.ids.iter().copied().step_by(2).collect();
            let mut some = answered("leases", self.db.storage.leases(worker, Some(&among)).await)?.valid;
            some.sort();
            some.retain(|(id, _)| among.contains(id));
            let held: Vec<_> = held.into_iter().filter(|(id, _)| among.contains(id)).collect();
            agree("the leases still held among every other job", &held, &some)?;
        }
        Ok(())
    }

    async fn compare_next_due(&mut self) -> Result<(), Divergence> {
        for (queues, kinds, max_crashes) in [
            (&["default", "mail"][..], &["a", "b", "c"][..], u16::MAX),
            (&["default"], &["a", "b"], 3),
            (&["mail"], &["a"], 2),
            (&["none"], &["a", "b"], 3),
        ] {
            let wanted = queues.iter().map(|queue| (*queue, 1, 0)).collect();
            let claim = self.ask(&Ask { who: Who::At(0), wanted, kinds, max_crashes, bypass_limit: true });
            self.rescan(&claim).await?;
            self.model.now = Utc::now();
            let due = answered("next_due", self.db.storage.next_due(&claim, ANY_TIME).await)?;
            let expected = self.model.next_due(&claim);
            let close = match (expected, due) {
                (Some(model), Some(storage)) if !model.is_zero() && !storage.is_zero() => {
                    is_about(self.model.now + model, self.model.now + storage)
                }
                _ => expected == due,
            };
            if !close {
                agree(&format!("what is next due of {claim:?}"), &expected, &due)?;
            }
        }
        Ok(())
    }
}

fn compare_job(job: &mut Job, record: &JobRecord) -> Result<(), Divergence> {
    agree("attempt and max_attempts", &(job.attempt, job.max_attempts), &(record.attempt, record.max_attempts))?;
    agree("crashes", &job.crashes, &record.crashes)?;
    agree("worker", &job.worker, &record.worker)?;
    agree("whether it is claimed", &job.worker.is_some(), &record.claimed_at.is_some())?;
    agree("whether it has ended", &job.state.is_finished(), &record.finished_at.is_some())?;
    agree(
        "kind, queue and priority",
        &(job.kind, job.queue, job.priority),
        &(&*record.kind, &*record.queue, record.priority),
    )?;
    if job.args != record.args {
        return Err("other arguments than it was given".to_owned());
    }
    if !job.run_at_is_exact && is_about(job.run_at, record.run_at) {
        (job.run_at, job.run_at_is_exact) = (record.run_at, true);
    }
    agree("run_at", &job.run_at, &record.run_at)?;
    let (now, stored) = (Utc::now(), record.state);
    let state = job.state_at(now);
    // Due at about this moment: it may be due or not.
    let is_open = job.state == JobState::Available && is_about(job.run_at, now) && stored.is_waiting();
    agree("state", &state, if is_open { &state } else { &stored })?;
    agree("enqueued_at", job.enqueued_at.get_or_insert(record.enqueued_at), &record.enqueued_at)
}
