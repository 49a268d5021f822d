//! A rule of all jobs of a kind.

use std::time::Duration;

use super::{JobRule, OnDiscard, OnFull, Rule, RuleProblem, key, key_of};

/// A rule of all jobs of a kind. The options `concurrency`, `sequence` and `rate` of `#[job]` each create one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindRule {
    /// The name. Kinds whose rules have the same name share the rule.
    pub name: &'static str,
    /// The rule itself.
    pub rule: Rule,
    /// The arguments whose values form the key. If it is empty, all jobs have the same key.
    pub by: &'static [&'static str],
    /// The arguments whose values form the tenant of a job. Tenants whose jobs wait for the same key take turns. If it
    /// is empty, there are no tenants.
    pub fair: &'static [&'static str],
}

impl KindRule {
    const fn new(name: &'static str, rule: Rule) -> Self {
        Self { name, rule, by: &[], fair: &[] }
    }

    /// A limit: at most `most` jobs run at once.
    pub const fn concurrency(name: &'static str, most: u32) -> Self {
        Self::new(name, Rule::concurrency(most))
    }

    /// A sequence: its jobs run one at a time, in the order of their ids.
    pub const fn sequence(name: &'static str, on_discard: OnDiscard) -> Self {
        Self::new(name, Rule::Sequence { on_discard })
    }

    /// A rate: at most `limit` jobs start in the period `per`.
    pub const fn rate(name: &'static str, limit: u32, per: Duration) -> Self {
        Self::new(name, Rule::rate(limit, per))
    }

    /// Counts the jobs separately for each value of these arguments. Default: all jobs have one key.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// Sets how many jobs of a rate may start at once after a quiet time. Default: as many as the rate allows in a
    /// tenth of a second, but at least 1. Limits and sequences ignore it.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.rule = self.rule.with_burst(burst);
        self
    }

    /// Sets what happens to a job that finds its limit full, or no token of its rate. Default: it waits. In a sequence,
    /// jobs always wait.
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.rule = self.rule.with_on_full(on_full);
        self
    }

    /// Lets tenants whose jobs wait for the same key take turns. The values of these arguments form the tenant of a
    /// job. Default: there are no tenants.
    pub const fn fair_by(mut self, arguments: &'static [&'static str]) -> Self {
        self.fair = arguments;
        self
    }

    /// The rule of a job with these arguments, as JSON text.
    pub(crate) fn of(self, args: &str) -> Result<JobRule, RuleProblem> {
        let tenant = if self.fair.is_empty() { None } else { Some(key_of(self.fair, args)?) };
        JobRule::new(self.name.to_owned(), key_of(self.by, args)?, self.rule, tenant)
    }

    /// Like [`of`](Self::of). If arguments that `by` names are missing, the key is the empty list. `None` if the rule
    /// itself is invalid: then the attribute has reported it.
    pub(crate) fn of_any(self, args: &str) -> Option<JobRule> {
        let tenant = || (!self.fair.is_empty()).then(|| key(&[]));
        self.of(args).or_else(|_| JobRule::new(self.name.to_owned(), key(&[]), self.rule, tenant())).ok()
    }
}
