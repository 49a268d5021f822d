//! The steps of the application and of the workers: enqueue, claim, finish.

use std::sync::Arc;

use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{Claim, Finished, PassOn, RescuePolicy, Transacted, Wanted};
use diesel_jobs_core::{ClaimedJob, Finish, JobId, Keep, Lease, Retention, Transition};
use diesel_jobs_storage::CompleteError;

use super::step::{Ask, End, Flow, New, Pick};
use super::world::{Divergence, World, agree, answered};
use crate::bench::{POLICY, context};
use crate::fixture::{Act, Fixture};
use crate::transacting::of_batch;

/// The name of the effects of transactional handlers.
pub(super) const EFFECT: &str = "effect";

impl<F: Fixture> World<'_, F> {
    pub(super) async fn enqueue(&mut self, new: &[New], together: bool) -> Result<(), Divergence> {
        let jobs: Vec<_> = new.iter().enumerate().map(|(index, new)| new.job(self.ids.len() + index)).collect();
        let args: Vec<String> = jobs.iter().map(|job| job.args.clone()).collect();
        let mut answers = Vec::new();
        if together {
            answers = answered("enqueue_all", self.client.answers(jobs).await)?;
        } else {
            for job in jobs {
                answers.push(answered("enqueue", self.client.answer(job).await)?);
            }
        }
        agree("how many answers came back", &new.len(), &answers.len())?;
        // A bulk inserts jobs with and without a limit apart from each other, and unique jobs in the order of their
        // keys.
        let mut last = [self.ids.last().copied(); 2];
        for ((answer, new), args) in answers.into_iter().zip(new).zip(args) {
            let id = answer.id();
            agree(&format!("the answer for {new:?}"), &self.model.take_key(new, args, id), &answer)?;
            if !answer.is_new() {
                continue;
            }
            // No id occurs twice. Otherwise an old lease could fit a new job.
            let before = &mut last[usize::from(new.flow != Flow::Free)];
            if before.is_some_and(|before| before >= id) || self.ids.contains(&id) {
                return Err(format!("job {id} came after job {before:?}"));
            }
            if new.unique.is_none() {
                *before = Some(id);
            }
            self.ids.push(id);
        }
        self.ids.sort_unstable();
        Ok(())
    }

    /// An enqueue whose transaction is rolled back. It changes nothing, and its ids may be given again.
    pub(super) async fn roll_back(&mut self, new: &[New]) -> Result<(), Divergence> {
        let jobs: Vec<_> = new.iter().enumerate().map(|(index, new)| new.job(self.ids.len() + index)).collect();
        self.client.begin().await;
        let answers = self.client.answers(jobs).await;
        self.client.rollback().await;
        agree("how many answers came back", &new.len(), &answered("enqueue_all", answers)?.len())
    }

    pub(super) fn ask(&self, ask: &Ask) -> Claim {
        let wanted = |(queue, slots, prefetch): &(&str, usize, usize)| Wanted {
            queue: (*queue).into(),
            slots: *slots,
            prefetch: *prefetch,
        };
        let kinds = ask.kinds.iter().map(|kind| (*kind).to_owned()).collect::<Arc<[String]>>();
        Claim {
            bypass_limit: ask.bypass_limit,
            quarantined_at: RescuePolicy { max_crashes: ask.max_crashes, ..POLICY }.quarantined_at(),
            ..Claim::new(self.worker(ask.who), ask.wanted.iter().map(wanted).collect(), kinds)
        }
    }

    pub(super) async fn claim(&mut self, ask: &Ask) -> Result<(), Divergence> {
        let claim = self.ask(ask);
        self.rescan(&claim).await?;
        let jobs = answered("claim", self.db.storage.claim(&claim).await)?;
        let claim = match &claim.wanted[..] {
            // A claim that has filled the free slots may leave the prefetch to the next claim.
            [Wanted { queue, slots, .. }] if *slots > 0 && jobs.len() == *slots => {
                Claim { wanted: vec![Wanted::new(queue.to_string(), *slots)], ..claim }
            }
            _ => claim,
        };
        let expected = self.model.claim(&claim);
        self.take(&claim, &expected, jobs)
    }

    pub(super) async fn claim_quarantined(&mut self, ask: &Ask) -> Result<(), Divergence> {
        let claim = self.ask(ask);
        let job = answered("claim_quarantined", self.db.storage.claim(&claim.for_quarantined()).await)?.pop();
        let expected: Vec<JobId> = self.model.claim_quarantined(&claim).into_iter().collect();
        self.take(&claim, &expected, job.into_iter().collect())
    }

    /// Checks that a claim returned these jobs, in this order, with the values that the model has.
    fn take(&mut self, claim: &Claim, expected: &[JobId], jobs: Vec<ClaimedJob>) -> Result<(), Divergence> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.lease.job).collect();
        agree("the claimed jobs", &expected.to_vec(), &ids)?;
        for job in jobs {
            let id = job.lease.job;
            let known = &self.model.jobs[&id];
            agree("the lease", &Lease { job: id, number: known.lease, worker: claim.worker }, &job.lease)?;
            agree("its flags", &JobFlags(known.flags()), &job.flags)?;
            agree("the attempt", &(known.attempt, known.max_attempts), &(job.attempt, job.max_attempts))?;
            agree("its kind and queue", &(known.kind, known.queue), &(&*job.kind, &*job.queue))?;
            agree("its priority and time", &(known.priority, known.run_at), &(job.priority, job.run_at))?;
            agree("when it was enqueued", &known.enqueued_at, &Some(job.enqueued_at))?;
            if known.args.as_bytes() != job.args {
                return Err(format!("job {id} has other arguments than it was given"));
            }
            self.grant(job);
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self, batch: &[(Pick, End)]) -> Result<(), Divergence> {
        self.finish_batch(batch, PassOn::Nothing).await.map(drop)
    }

    /// A finish that passes permits on. Together with the passes of admission before and after it, it admits the same
    /// jobs as those passes alone.
    pub(super) async fn finish_and_pass_on(
        &mut self,
        batch: &[(Pick, End)],
        next: Option<&Ask>,
    ) -> Result<(), Divergence> {
        self.admit().await?;
        let next = next.map(|ask| {
            let worker = batch.iter().find_map(|(pick, _)| self.pick(*pick)).map(|job| job.lease.worker);
            let claim = self.ask(ask);
            Claim { worker: worker.unwrap_or(claim.worker), ..claim }
        });
        let pass_on = next.as_ref().map_or(PassOn::Permits, PassOn::PermitsAndClaim);
        let Finished { passed_on, claimed, .. } = self.finish_batch(batch, pass_on).await?;
        self.admit_after(passed_on + claimed.len()).await?;
        match next {
            None => agree("how many jobs were claimed", &0, &claimed.len()),
            Some(next) => self.take_passed_on(&next, claimed),
        }
    }

    /// Checks that a claim of these jobs would have been possible.
    fn take_passed_on(&mut self, next: &Claim, claimed: Vec<ClaimedJob>) -> Result<(), Divergence> {
        let mut ids = Vec::new();
        for job in &claimed {
            let id = job.lease.job;
            // The time of the start is not known before.
            self.model.jobs.get_mut(&id).ok_or_else(|| format!("job {id} is unknown"))?.run_at = job.run_at;
            ids.push(id);
        }
        if !self.model.claim_passed_on(next, &mut ids) {
            return Err(format!("these jobs were claimed, and {next:?} does not want them: {ids:?}"));
        }
        self.take(next, &ids, claimed)
    }

    async fn finish_batch(&mut self, batch: &[(Pick, End)], pass_on: PassOn<'_>) -> Result<Finished, Divergence> {
        let mut finishes: Vec<Finish> = Vec::new();
        for (pick, end) in batch {
            let Some(job) = self.pick(*pick) else { continue };
            // A worker that does not know whether a finish was accepted sends the same transition again, never another
            // one.
            let sent = finishes.iter().find(|finish| finish.lease == job.lease).cloned();
            finishes.push(sent.unwrap_or_else(|| match end.transition() {
                // The reconciler knows only the lease.
                Transition::Release if job.lease.number % 2 == 0 => Finish::release(job.lease),
                transition => Finish::new(&job, transition),
            }));
        }
        let mut finished = answered("finish", self.db.storage.finish(&finishes, pass_on).await)?;
        finished.moved.sort();
        let mut expected: Vec<JobId> = Vec::new();
        for Finish { lease, transition, .. } in &finishes {
            expected.extend(self.model.finish(*lease, transition).then_some(lease.job));
        }
        expected.sort();
        agree("the finished jobs", &expected, &finished.moved)?;
        Ok(finished)
    }

    /// Without any of its leases, the whole transaction is rolled back.
    pub(super) async fn transact(
        &mut self,
        batch: &[(Pick, End)],
        connection: usize,
        works: bool,
    ) -> Result<(), Divergence> {
        let (mut jobs, mut transitions) = (Vec::<ClaimedJob>::new(), Vec::new());
        for (pick, end) in batch {
            let Some(job) = self.pick(*pick) else { continue };
            if jobs.iter().all(|other| other.lease.job != job.lease.job) {
                jobs.push(job);
                transitions.push(end.transition());
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let leases: Vec<Lease> = jobs.iter().map(|job| job.lease).collect();
        let provided = F::provided();
        let provided = &provided[connection % provided.len()];
        let act = Act::of_batch(EFFECT, if works { Ok(transitions.clone()) } else { Err("it did not work") });
        let ended = self.db.storage.transact(of_batch(provided, &jobs, act)).await;
        let stand = leases.iter().all(|lease| self.model.held(*lease).is_some());
        match &ended {
            Transacted::Committed(written) if works && stand && *written == transitions => {
                self.model.effects += 1;
                for (lease, transition) in leases.iter().zip(&transitions) {
                    self.model.finish(*lease, transition);
                }
                Ok(())
            }
            Transacted::LeaseLost if !stand => Ok(()),
            // A storage that checks the leases only at the end has not checked them.
            Transacted::RolledBack(_) if !works => Ok(()),
            _ => Err(format!("the transaction under {leases:?}, which stand: {stand}, ended with {ended:?}")),
        }
    }

    pub(super) async fn complete_in(&mut self, pick: Pick, commit: bool) -> Result<(), Divergence> {
        let Some(ctx) = self.pick(pick).as_ref().map(context) else { return Ok(()) };
        self.client.begin().await;
        let answer = self.client.complete_in(&ctx).await;
        if commit {
            self.client.commit().await;
        } else {
            self.client.rollback().await;
        }
        let stands = self.model.held(ctx.lease()).is_some();
        match answer {
            Ok(()) if stands && commit => {
                self.model.finish(ctx.lease(), &Transition::Complete(Keep::For(Retention::default().completed)));
                Ok(())
            }
            Ok(()) if stands => Ok(()),
            Err(CompleteError::LeaseLost(_)) if !stands => Ok(()),
            answer => Err(format!("complete_in under a lease that is still held: {stands}, answered {answer:?}")),
        }
    }
}
