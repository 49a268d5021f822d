//! The attempts of a drain, one after the other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::__private::{expired, is_expired};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{
    Discarded, Finish, JobContext, JobId, JobRecord, Keep, NewJob, Registration, Registry, Retention, States,
    StorageError, Transition, WorkerId,
};

use super::backlog::Backlog;
use super::plan::Plan;
use super::report::{DrainReport, RanJob, StillWaiting};
use super::store::TestConnection;
use super::waiting::{Among, Waiting};
use super::{layered, refused, stuck};

/// Backoffs with jitter always take this part of their bound, so that tests can be repeated.
const JITTER: f64 = 0.5;

/// Runs the jobs that the plan selects, until none of them is left.
pub(super) async fn run<C: TestConnection>(mut plan: Plan, conn: &mut C) -> StorageResult<DrainReport> {
    calls::install_hook();
    let registry = plan.registry.take().unwrap_or_else(Registry::linked);
    let states = Arc::new(std::mem::take(&mut plan.states));
    let Waiting { jobs, now } = conn.waiting(Among::All).await?;
    let at_first = plan.once.then(|| jobs.iter().map(|job| job.id).collect());
    let mut attempts = Attempts {
        conn,
        plan: &plan,
        registry: &registry,
        states,
        worker: WorkerId::generate(),
        may_run: at_first,
        started: HashSet::new(),
        not_started: HashSet::new(),
        checked: HashSet::new(),
        backlog: Backlog::default(),
        newest: JobId(0),
        now,
        skipped: TimeDelta::zero(),
        enqueued_at: HashMap::new(),
        report: DrainReport::default(),
    };
    let mut waiting = jobs;
    loop {
        attempts.backlog = Backlog::default();
        attempts.add(waiting.clone());
        if !attempts.run_backlog().await? {
            let why = |job: &JobRecord| attempts.why(job);
            attempts.report.waiting = waiting.iter().map(|job| StillWaiting::new(job, why(job))).collect();
            return Ok(attempts.report);
        }
        // Reads everything again: a handler may have changed waiting jobs in other ways than by enqueueing.
        Waiting { jobs: waiting, now: attempts.now } = attempts.conn.waiting(Among::All).await?;
    }
}

struct Attempts<'a, C> {
    conn: &'a mut C,
    plan: &'a Plan,
    registry: &'a Registry,
    states: Arc<States>,
    worker: WorkerId,
    /// With `once`: the jobs that waited when the drain began and have not run yet.
    may_run: Option<HashSet<JobId>>,
    /// Jobs that have started an attempt. They do not expire any more.
    started: HashSet<JobId>,
    /// Jobs that were waiting and could not be started.
    not_started: HashSet<JobId>,
    /// Kinds that were checked: this drain has their states and their connection.
    checked: HashSet<&'static str>,
    backlog: Backlog,
    /// The highest id seen.
    newest: JobId,
    /// The database's time.
    now: DateTime<Utc>,
    /// How much time was skipped.
    skipped: TimeDelta,
    /// How much time had been skipped when a job was enqueued or put back. Its delay counts from there.
    enqueued_at: HashMap<JobId, TimeDelta>,
    report: DrainReport,
}

impl<C: TestConnection> Attempts<'_, C> {
    fn add(&mut self, jobs: Vec<JobRecord>) {
        for mut job in jobs {
            self.newest = self.newest.max(job.id);
            job.run_at += *self.enqueued_at.entry(job.id).or_insert(self.skipped);
            let asked_for = self.may_run.as_ref().is_none_or(|jobs| jobs.contains(&job.id));
            if asked_for && !self.not_started.contains(&job.id) && self.plan.left_out(&job, self.registry).is_none() {
                self.backlog.add(job);
            }
        }
    }

    /// Runs the jobs of the backlog, and those that they enqueue. Returns whether any attempt was made.
    async fn run_backlog(&mut self) -> StorageResult<bool> {
        let mut any = false;
        while !self.is_over() {
            let now = self.now + self.skipped;
            let next = self.backlog.due(now).or_else(|| self.backlog.earliest().filter(|_| self.plan.skip_time));
            let Some(job) = next.cloned() else { break };
            self.backlog.remove(&job);
            self.run(&job).await?;
            any = true;
            let waiting = self.conn.waiting(Among::NewerThan(self.newest, job.id)).await?;
            self.now = waiting.now;
            self.add(waiting.jobs);
        }
        Ok(any)
    }

    fn is_over(&self) -> bool {
        let ran = &self.report.ran;
        ran.len() >= self.plan.limit || self.plan.fail_fast && ran.last().is_some_and(RanJob::failed)
    }

    /// Runs one attempt of this job, and writes its end.
    async fn run(&mut self, job: &JobRecord) -> StorageResult<()> {
        self.skipped = self.skipped.max(job.run_at - self.now);
        let skipped_before = self.enqueued_at.remove(&job.id).unwrap_or_default();
        if let Some(jobs) = &mut self.may_run {
            jobs.remove(&job.id);
        }
        // `add` has left out the jobs without a handler.
        let Some(registration) = self.registry.get(&job.kind) else { return Ok(()) };
        if self.checked.insert(registration.kind) {
            check::<C>(registration, &self.plan.layers.known(&self.states))?;
        }
        let Some(mut started) = self.conn.start(job.id, self.worker).await? else {
            self.not_started.insert(job.id);
            return Ok(());
        };
        started.run_at = job.run_at;
        started.start_by = started.start_by.map(|time| time.checked_add_signed(skipped_before).unwrap_or(time));
        let is_first = self.started.insert(job.id);
        let is_expired = is_first && is_expired(&started, self.now + self.skipped);
        let ctx =
            JobContext::for_test(started, self.states.clone(), self.now + self.skipped, registration.options.secrets);
        if is_expired {
            let keep = Keep::For(Retention::default().cancelled);
            return self.end(&ctx, Transition::Cancel { reason: expired(), keep }).await;
        }
        let limit = stuck::limit(self.plan.time_limit, registration);
        let handled = layered::call(self.conn, registration, ctx.clone(), &self.plan.layers, limit).await;
        let handled = handled.map_err(StorageError::Config)?;
        let reports = ctx.take_progress();
        if !reports.is_empty() {
            self.conn.store_progress(reports).await?;
        }
        let transition = calls::decided(&ctx, registration, handled, JITTER);
        if registration.connection.is_some() && ctx.is_completed_in() {
            return Err(StorageError::Config(format!(
                "job {} of kind `{}` called complete_in, but its own transaction completes it: a worker fails such an attempt",
                ctx.id(),
                ctx.kind()
            )));
        }
        self.end(&ctx, transition).await
    }

    /// Writes the end of an attempt.
    async fn end(&mut self, ctx: &JobContext, transition: Transition) -> StorageResult<()> {
        self.report.ran.push(RanJob::new(ctx, &transition));
        let follower = self.follower(ctx, &transition)?;
        if !self.conn.finish(Finish::new(ctx.claimed(), transition)).await? && !ctx.is_completed_in() {
            let problem = format!("job {} of kind `{}` is gone after its attempt", ctx.id(), ctx.kind());
            return Err(StorageError::Refused(problem.into()));
        }
        match follower {
            Some(job) => self.conn.add(job).await,
            None => Ok(()),
        }
    }

    /// The job that is enqueued if this transition discards the job. The stored rules are not used: a test that changed
    /// them in its transaction would make other tests wait.
    fn follower(&self, ctx: &JobContext, transition: &Transition) -> StorageResult<Option<NewJob>> {
        let Transition::Discard { failure, .. } = transition else { return Ok(None) };
        let rule = self.registry.discard_rules().iter().find(|rule| rule.kind == ctx.kind());
        let job = rule.map(|rule| rule.job(&Discarded::new(ctx, failure))).transpose();
        job.map_err(|problem| StorageError::Config(problem.to_string()))
    }

    fn why(&self, job: &JobRecord) -> String {
        if self.not_started.contains(&job.id) {
            return "it could not be started".to_owned();
        }
        self.plan.why(job, self.registry, self.now + self.skipped, self.is_over())
    }
}

/// Returns an error if the handler needs a state or a connection that this drain does not have.
fn check<C: TestConnection>(registration: &Registration, states: &States) -> StorageResult<()> {
    let mut registry = Registry::new();
    registry.insert(*registration);
    let checked = registry.check(states, C::provides, "this connection");
    checked.map_err(|problem| StorageError::Config(refused::explain(&problem)))
}
