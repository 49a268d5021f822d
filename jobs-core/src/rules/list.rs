//! All rules of one job: it starts when all of them allow it, and takes all permits and tokens at once.
//!
//! Jobs with the same rules and the same keys wait in one *lane*. Only the first job of a lane is compared with its
//! rules, and it waits at one that does not allow it. Without lanes, all these jobs would move repeatedly from one full
//! limit to another.

use std::collections::BTreeSet;
use std::ops::Deref;

use serde::Serialize;
use serde_json::Value;

use super::{JobRule, LONGEST_KEY, RuleProblem, hashed};
use crate::canonical::canonical;
use crate::flags;

/// The largest number of rules of one job.
pub const MOST_RULES: usize = 4;

/// The rules of one job, at most four. It starts when all of them allow it. A sequence comes first: the job waits for
/// its turn in the sequence, and then for its other rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Rules(Vec<JobRule>);

impl Rules {
    /// Checks rules that were written by another program, such as an export. Fails if one of them is invalid, or if
    /// they cannot be combined.
    pub fn new(rules: Vec<JobRule>) -> Result<Self, RuleProblem> {
        Self::of(rules.into_iter().map(|JobRule { name, key, rule, tenant }| {
            let are_keys = std::iter::once(&key).chain(&tenant).all(|key| is_stored_key(key));
            if are_keys { JobRule::new(name, key, rule, tenant) } else { Err(RuleProblem::StoredKey) }
        }))
    }

    /// All of these rules.
    pub(crate) fn of(rules: impl IntoIterator<Item = Result<JobRule, RuleProblem>>) -> Result<Self, RuleProblem> {
        let mut rules = rules.into_iter().collect::<Result<Vec<_>, _>>()?;
        if rules.len() > 1 {
            fit_together(&rules)?;
            rules.sort_by_key(|rule| rule.rule.on_discard().is_none());
        }
        Ok(Self(rules))
    }

    /// The rules as the database has them, which are not checked again.
    pub(super) const fn stored(rules: Vec<JobRule>) -> Self {
        Self(rules)
    }

    pub(crate) fn into_vec(self) -> Vec<JobRule> {
        self.0
    }

    /// Whether there is more than one rule.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The rules without the sequence.
    pub fn beside_sequence(&self) -> &[JobRule] {
        match &*self.0 {
            [first, others @ ..] if first.rule.on_discard().is_some() => others,
            all => all,
        }
    }

    /// The [flags](crate::flags) of a job with these rules.
    pub fn flags(&self) -> i32 {
        match &*self.0 {
            [] => 0,
            [rule] => rule.flags(),
            [first, ..] if first.rule.on_discard().is_some() => flags::LIMITED | flags::SEVERAL | flags::SEQUENCE,
            _ => flags::LIMITED | flags::SEVERAL,
        }
    }

    /// Whether both are one rule each, or none, and differ at most in the keys and tenants.
    pub(crate) fn are_like_but_key(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            ([], []) => true,
            ([rule], [other]) => rule.is_like_but_key(other),
            _ => false,
        }
    }

    /// The lane of jobs with these rules: the names and keys as a JSON list, or its hash. After the key of a rate there
    /// is a 1. A rate has no permits. So a job with a rate must not share a lane with a job that needs a permit of the
    /// same name. The SQL function `jobs.lane` makes the same text.
    pub(super) fn lane(&self) -> String {
        let mut rules: Vec<&JobRule> = self.beside_sequence().iter().collect();
        rules.sort_unstable_by_key(|rule| (&rule.name, &rule.key));
        let places = rules.into_iter().flat_map(|JobRule { name, key, rule, .. }| {
            [Value::from(&**name), Value::from(&**key)].into_iter().chain(rule.is_rate().then_some(Value::from(1)))
        });
        let text = Value::Array(places.collect()).to_string();
        if text.len() <= LONGEST_KEY { text } else { hashed(&text) }
    }
}

impl Deref for Rules {
    type Target = [JobRule];

    fn deref(&self) -> &[JobRule] {
        &self.0
    }
}

/// Whether it is the canonical text of a list, or a hash. An enqueue makes no other keys, and a job with another one
/// would not count together with those of its key.
pub(crate) fn is_stored_key(key: &str) -> bool {
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    key.strip_prefix("sha256:").is_some_and(is_hash)
        || key.starts_with('[') && canonical(key).is_ok_and(|text| text == key)
}

fn fit_together(rules: &[JobRule]) -> Result<(), RuleProblem> {
    if rules.len() > MOST_RULES {
        return Err(RuleProblem::TooMany(rules.len()));
    }
    if rules.iter().any(|rule| rule.tenant.is_some()) {
        return Err(RuleProblem::FairOfSeveral);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = rules.iter().find(|rule| !names.insert(&*rule.name)) {
        return Err(RuleProblem::Twice(twice.name.clone()));
    }
    if rules.iter().filter(|rule| rule.rule.on_discard().is_some()).count() > 1 {
        return Err(RuleProblem::Sequences);
    }
    if rules.iter().any(|rule| !rule.rule.on_full().is_wait()) {
        return Err(RuleProblem::OnFullOfSeveral);
    }
    Ok(())
}
