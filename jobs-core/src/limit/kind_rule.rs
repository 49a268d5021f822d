//! A rule of all jobs of a kind.

use std::time::Duration;

use super::{JobRule, OnDiscard, OnFull, Rule, RuleProblem, key, key_of};

/// A rule of all jobs of a kind. The options `concurrency`, `sequence` and `rate` in `#[job]` make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindRule {
    /// The name. Kinds with the same name share the rule.
    pub name: &'static str,
    /// What it says.
    pub rule: Rule,
    /// The arguments whose values are the key. If there are none, all jobs have the same key.
    pub by: &'static [&'static str],
    /// The arguments whose values are the tenant of a job: the tenants that wait for a key take turns. Without
    /// arguments, there are no tenants.
    pub fair: &'static [&'static str],
}

impl KindRule {
    const fn new(name: &'static str, rule: Rule) -> Self {
        Self { name, rule, by: &[], fair: &[] }
    }

    /// A limit: at most this many jobs at once.
    pub const fn concurrency(name: &'static str, most: u32) -> Self {
        Self::new(name, Rule::concurrency(most))
    }

    /// A sequence: one job at a time, in the order of their ids.
    pub const fn sequence(name: &'static str, on_discard: OnDiscard) -> Self {
        Self::new(name, Rule::Sequence { on_discard })
    }

    /// A rate: at most this many starts in this period.
    pub const fn rate(name: &'static str, limit: u32, per: Duration) -> Self {
        Self::new(name, Rule::rate(limit, per))
    }

    /// Counts the jobs separately for each value of these arguments. Default: all jobs have one key.
    pub const fn by(mut self, arguments: &'static [&'static str]) -> Self {
        self.by = arguments;
        self
    }

    /// Sets how many jobs of a rate may start at once. Default: the starts of a tenth of a second, at least 1.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.rule = self.rule.with_burst(burst);
        self
    }

    /// Sets what happens to a job that finds the limit full, or no token. Default: it waits. In a sequence it always
    /// waits.
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.rule = self.rule.with_on_full(on_full);
        self
    }

    /// Lets the tenants that wait for a key take turns. The values of these arguments are the tenant of a job. Default:
    /// there are no tenants.
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
