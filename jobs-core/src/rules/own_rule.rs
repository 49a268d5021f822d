//! A rule that the enqueue of one job gives, instead of its kind.

use std::time::Duration;

use serde::Serialize;

use super::{JobRule, KindRule, OnDiscard, OnFull, Rule, RuleProblem, key, value_of};

/// A [`Limit`], [`Sequence`] or [`Rate`] of one job.
#[derive(Clone, Debug)]
pub struct OwnRule {
    name: String,
    rule: Rule,
    /// The canonical texts of the values.
    key: Vec<Result<String, RuleProblem>>,
    tenant: Vec<Result<String, RuleProblem>>,
}

impl OwnRule {
    fn new(name: String, rule: Rule) -> Self {
        Self { name, rule, key: Vec::new(), tenant: Vec::new() }
    }

    /// Whether this rule and that of the kind are both limits, sequences or rates.
    pub(crate) fn is_same_sort(&self, of_kind: &KindRule) -> bool {
        self.rule.is_same_sort(&of_kind.rule)
    }

    pub(crate) fn of(self) -> Result<JobRule, RuleProblem> {
        let values = self.key.into_iter().collect::<Result<Vec<_>, _>>()?;
        let tenant = self.tenant.into_iter().collect::<Result<Vec<_>, _>>()?;
        let tenant = if tenant.is_empty() { None } else { Some(key(&tenant)) };
        JobRule::new(self.name, key(&values), self.rule, tenant)
    }
}

/// A limit of one job: how many jobs with the same name and key may run at once. Pass it to
/// [`Job::concurrency`](crate::Job::concurrency).
#[derive(Clone, Debug)]
#[must_use = "pass it to `concurrency`"]
pub struct Limit(OwnRule);

impl Limit {
    /// Creates a limit that allows `most` jobs with this name to run at once. `most` is from 1 to 10,000, and the
    /// enqueue fails with any other value.
    pub fn new(name: impl Into<String>, most: u32) -> Self {
        Self(OwnRule::new(name.into(), Rule::concurrency(most)))
    }

    /// Sets the key: jobs are counted separately for each key. A value is anything that serde can write as JSON, and
    /// several calls form a key of several values. Default: all jobs of the limit have the same key.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens to the job if its limit is full when it becomes due. Default: it waits.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.0.rule = self.0.rule.with_on_full(on_full);
        self
    }

    /// Sets the tenant of this job. Tenants whose jobs wait for the same key take turns, so that a tenant with many
    /// waiting jobs does not delay the others. A value is anything that serde can write as JSON, and several calls form
    /// a tenant of several values. Default: no tenants.
    ///
    /// ```
    /// # use diesel_jobs_core::Limit;
    /// let (tenant_id, limit) = (7, Limit::new("reports", 10));
    /// # let _ =
    /// limit.fair_by(tenant_id)
    /// # ;
    /// ```
    pub fn fair_by(mut self, value: impl Serialize) -> Self {
        self.0.tenant.push(value_of(value));
        self
    }
}

/// A sequence that one job belongs to: its jobs run one at a time, in the order of their ids. Pass it to
/// [`Job::sequence`](crate::Job::sequence).
#[derive(Clone, Debug)]
#[must_use = "pass it to `sequence`"]
pub struct Sequence(OwnRule);

impl Sequence {
    /// Creates a sequence with this name. A discarded job halts it, unless you set [`on_discard`](Self::on_discard).
    pub fn new(name: impl Into<String>) -> Self {
        Self(OwnRule::new(name.into(), Rule::Sequence { on_discard: OnDiscard::Halt }))
    }

    /// Sets the key: the jobs with each key are a sequence of their own. A value is anything that serde can write as
    /// JSON, and several calls form a key of several values. Default: all jobs of the sequence have the same key.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens to the sequence when this job is discarded. Default: it halts.
    pub fn on_discard(mut self, on_discard: OnDiscard) -> Self {
        self.0.rule = Rule::Sequence { on_discard };
        self
    }
}

/// A rate of one job: how many jobs with the same name and key may start in a period. Pass it to
/// [`Job::rate`](crate::Job::rate).
#[derive(Clone, Debug)]
#[must_use = "pass it to `rate`"]
pub struct Rate(OwnRule);

impl Rate {
    /// Creates a rate that allows `limit` jobs with this name to start in the period `per`. `limit` is from 1 to
    /// 1,000,000, and `per` is from 1 ms to 366 days. A rate may not allow more than 10,000 starts per second. The
    /// enqueue fails with any other value.
    pub fn new(name: impl Into<String>, limit: u32, per: Duration) -> Self {
        Self(OwnRule::new(name.into(), Rule::rate(limit, per)))
    }

    /// Sets how many jobs may start at once after a quiet time, from 1 to 10,000. Default: as many as the rate allows
    /// in a tenth of a second, but at least 1.
    pub fn burst(mut self, burst: u32) -> Self {
        self.0.rule = self.0.rule.with_burst(burst);
        self
    }

    /// Sets the key: the jobs with each key have tokens of their own. A value is anything that serde can write as JSON,
    /// and several calls form a key of several values. Default: all jobs of the rate have the same key.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens to the job if there is no token when it becomes due: it waits, or it is discarded. Default: it
    /// waits.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.0.rule = self.0.rule.with_on_full(on_full);
        self
    }
}

impl From<Limit> for OwnRule {
    fn from(Limit(rule): Limit) -> Self {
        rule
    }
}

impl From<Sequence> for OwnRule {
    fn from(Sequence(rule): Sequence) -> Self {
        rule
    }
}

impl From<Rate> for OwnRule {
    fn from(Rate(rule): Rate) -> Self {
        rule
    }
}
