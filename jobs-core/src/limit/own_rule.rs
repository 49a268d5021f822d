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

/// How many jobs with the same name and key may run at once, see [`Job::concurrency`](crate::Job::concurrency).
#[derive(Clone, Debug)]
#[must_use = "pass it to `concurrency`"]
pub struct Limit(OwnRule);

impl Limit {
    /// At most this many jobs of the limit with this name at once, from 1 to 10,000. The enqueue refuses other values.
    pub fn new(name: impl Into<String>, most: u32) -> Self {
        Self(OwnRule::new(name.into(), Rule::concurrency(most)))
    }

    /// Counts the jobs separately for each value. Several calls make a key of several values. A value is anything that
    /// serde writes as JSON. Default: all jobs of the limit have one key.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens to the job if its limit is full when it becomes due. Default: it waits.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.0.rule = self.0.rule.with_on_full(on_full);
        self
    }

    /// Lets the tenants of the key take turns, and sets that of this job. So a tenant with many waiting jobs does not
    /// delay the others. Several calls make a tenant of several values. A value is anything that serde writes as JSON.
    /// Default: no tenants.
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

/// The sequence of one job, see [`Job::sequence`](crate::Job::sequence).
#[derive(Clone, Debug)]
#[must_use = "pass it to `sequence`"]
pub struct Sequence(OwnRule);

impl Sequence {
    /// The sequence with this name. Default: all its jobs have one key.
    pub fn new(name: impl Into<String>) -> Self {
        Self(OwnRule::new(name.into(), Rule::Sequence { on_discard: OnDiscard::Halt }))
    }

    /// The jobs with each value are a sequence of their own. Several calls make a key of several values. A value is
    /// anything that serde writes as JSON.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens when this job is discarded. Default: the sequence halts.
    pub fn on_discard(mut self, on_discard: OnDiscard) -> Self {
        self.0.rule = Rule::Sequence { on_discard };
        self
    }
}

/// The rate of one job, see [`Job::rate`](crate::Job::rate).
#[derive(Clone, Debug)]
#[must_use = "pass it to `rate`"]
pub struct Rate(OwnRule);

impl Rate {
    /// At most `limit` starts in the period `per`, of all jobs of the rate with this name. `limit` is from 1 to
    /// 1,000,000, and `per` from 1 ms to 366 days. A rate allows at most 10,000 starts in a second. The enqueue refuses
    /// other values.
    pub fn new(name: impl Into<String>, limit: u32, per: Duration) -> Self {
        Self(OwnRule::new(name.into(), Rule::rate(limit, per)))
    }

    /// Sets how many jobs may start at once after a quiet time, from 1 to 10,000. Default: the number of starts in a
    /// tenth of a second, at least 1.
    pub fn burst(mut self, burst: u32) -> Self {
        self.0.rule = self.0.rule.with_burst(burst);
        self
    }

    /// The jobs with each value have their own tokens. Several calls make a key of several values. A value is anything
    /// that serde writes as JSON.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.0.key.push(value_of(value));
        self
    }

    /// Sets what happens to the job if there is no token when it becomes due: it waits or is discarded. Default: it
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
