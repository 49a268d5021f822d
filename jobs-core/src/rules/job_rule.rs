//! A rule of one job, with its name and key.

use serde::{Deserialize, Serialize};

use super::{LONGEST_KEY, Rule, RuleProblem};
use crate::flags;

/// A rule of one job, with its name and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JobRule {
    /// The name. Jobs of all kinds whose rules have the same name count together.
    pub name: String,
    /// The key. Jobs whose rules have the same name and key count together.
    pub key: String,
    /// The rule itself.
    pub rule: Rule,
    /// The tenant of the job, in the same form as the key. Tenants whose jobs wait for the same key take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl JobRule {
    /// The rule with this key. Fails if it may not be stored.
    pub(crate) fn new(name: String, key: String, rule: Rule, tenant: Option<String>) -> Result<Self, RuleProblem> {
        let may_be_stored = |text: &str| !text.is_empty() && text.len() <= LONGEST_KEY && !text.contains('\0');
        if !may_be_stored(&name) {
            return Err(RuleProblem::Name);
        }
        let rule = rule.checked()?;
        if !std::iter::once(&key).chain(&tenant).all(|key| may_be_stored(key)) {
            return Err(RuleProblem::StoredKey);
        }
        if tenant.is_some() && rule.most().is_none() {
            return Err(RuleProblem::FairOfSeveral);
        }
        if tenant.is_some() && !rule.on_full().is_wait() {
            return Err(RuleProblem::FairOnFull);
        }
        Ok(Self { name, key, rule, tenant })
    }

    /// Whether both differ at most in their keys and tenants.
    pub(super) fn is_like_but_key(&self, other: &Self) -> bool {
        (&self.name, self.rule, self.tenant.is_some()) == (&other.name, other.rule, other.tenant.is_some())
    }

    /// The [flags](crate::flags) of a job that has only this rule.
    pub(super) const fn flags(&self) -> i32 {
        self.rule.flags() | if self.tenant.is_some() { flags::FAIR } else { 0 }
    }
}
