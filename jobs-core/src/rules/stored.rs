//! The column `rules`: the rules of a job as the databases store them. Their statements and functions read its JSON.

use std::borrow::Cow;

use super::{JobRule, Rule, Rules};

/// What is stored of the rules of a job, and where it waits first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRules<'a> {
    /// The name of the rule for which it waits first. Empty if this is the lane of several rules.
    pub name: Cow<'a, str>,
    /// Its key, or the lane.
    pub key: Cow<'a, str>,
    /// How many jobs of this name and key may run at once, or start in the period of a rate.
    pub most: u32,
    /// The [flags](crate::flags) of the job.
    pub flags: i32,
    /// The lane, if there are several rules.
    pub lane: Option<String>,
    /// The rules as JSON.
    pub json: String,
}

impl Rules {
    /// What is stored of these rules. `None` if there are none.
    pub fn to_stored(&self) -> Option<StoredRules<'_>> {
        let (first, lane) = (self.first()?, self.are_several().then(|| self.lane()));
        let (name, key, most) = match (&lane, first.rule) {
            (Some(lane), Rule::Concurrency { .. } | Rule::Rate { .. }) => ("".into(), lane.clone().into(), 1),
            (_, rule) => ((&*first.name).into(), (&*first.key).into(), rule.most_of_key()),
        };
        Some(StoredRules { name, key, most, flags: self.flags(), lane, json: self.to_json()? })
    }

    /// The JSON alone.
    pub fn to_json(&self) -> Option<String> {
        // A list of texts and numbers can always be written.
        (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads the stored JSON.
    pub fn read(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice::<Vec<JobRule>>(json).map(Self::stored)
    }
}
