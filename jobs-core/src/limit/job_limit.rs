//! The limit as it is stored with a job.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rate::{JobRate, RateSpec};
use super::{LONGEST_KEY, LimitProblem, MOST_AT_ONCE, OnDiscard, OnFull, key};
use crate::flags;

/// The limit of a stored job. A job with several limits has them in `limits`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobLimit {
    /// The name of the limit. Empty if the job has several limits and is in no sequence.
    #[serde(rename = "limit")]
    pub name: String,
    /// The key. Jobs with the same name and key are counted together. If the name is empty, this is the lane in which the job waits.
    pub key: String,
    /// How many of them may run at once.
    pub most: u32,
    /// Whether the jobs are a sequence, and what happens when one of them is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<OnDiscard>,
    /// If it is a rate, at most `most` of them start in its period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<JobRate>,
    /// What happens to the job if its limit is full when it becomes due.
    #[serde(default, skip_serializing_if = "OnFull::is_wait")]
    pub on_full: OnFull,
    /// The tenant of the job, made like the key: the tenants of a key take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<String>,
    /// The lane in which a job of a sequence waits for the other limits after its turn has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// If the job has several limits: all of them but its sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<JobLimit>,
}

impl Default for JobLimit {
    fn default() -> Self {
        Self {
            name: String::new(),
            key: String::new(),
            most: 1,
            sequence: None,
            rate: None,
            on_full: OnFull::Wait,
            fair: None,
            lane: None,
            limits: Vec::new(),
        }
    }
}

impl JobLimit {
    pub(super) fn new(
        name: &str,
        most: u32,
        values: &[Value],
        sequence: Option<OnDiscard>,
        rate: Option<RateSpec>,
    ) -> Result<Self, LimitProblem> {
        let rate = rate.map(|rate| JobRate::of(most, rate)).transpose()?;
        check(name, most, rate)?;
        Ok(Self { name: name.to_owned(), key: key(values)?, most, sequence, rate, ..Self::default() })
    }

    /// The same limit, if it may be stored. For limits that another program has written, such as an export.
    pub fn checked(self) -> Result<Self, LimitProblem> {
        if self.is_several() {
            return self.checked_all();
        }
        check(&self.name, self.most, self.rate)?;
        if self.lane.is_some() || self.sequence.is_some() && self.rate.is_some() {
            return Err(LimitProblem::Nested);
        }
        if self.sequence.is_some() && self.most != 1 {
            return Err(LimitProblem::SequenceOf(self.most));
        }
        if self.fair.is_some() && (self.sequence.is_some() || self.rate.is_some()) {
            return Err(LimitProblem::FairOfSeveral);
        }
        if std::iter::once(&self.key).chain(&self.fair).any(|key| !may_be_stored(key)) {
            return Err(LimitProblem::StoredKey);
        }
        let on_full = self.on_full;
        self.with_on_full(on_full)
    }

    /// Whether both are a single limit, and differ at most in their keys and tenants.
    pub fn is_like_but_key(&self, other: &Self) -> bool {
        let Self { name, key: _, most, sequence, rate, on_full, fair, lane, limits } = self;
        (name, most, sequence, rate, on_full)
            == (&other.name, &other.most, &other.sequence, &other.rate, &other.on_full)
            && fair.is_some() == other.fair.is_some()
            && [lane, &other.lane].into_iter().all(Option::is_none)
            && [limits, &other.limits].into_iter().all(Vec::is_empty)
    }

    /// The [flags](crate::flags) of a job with this limit.
    pub fn flags(&self) -> i32 {
        let several = if self.is_several() { flags::SEVERAL } else { 0 };
        let on_full = if self.on_full.is_wait() { 0 } else { flags::ON_FULL };
        match (self.sequence, self.rate) {
            (Some(_), _) => flags::LIMITED | flags::SEQUENCE | several,
            (None, Some(_)) => flags::LIMITED | flags::RATE | on_full,
            (None, None) => flags::LIMITED | several | on_full | if self.fair.is_some() { flags::FAIR } else { 0 },
        }
    }

    /// The JSON that is stored with the job.
    pub fn to_json(&self) -> String {
        // A struct of texts, numbers and lists can always be written as JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn may_be_stored(key: &str) -> bool {
    !key.is_empty() && key.len() <= LONGEST_KEY && !key.contains('\0')
}

/// Checks what is stored of a limit besides its key.
fn check(name: &str, most: u32, rate: Option<JobRate>) -> Result<(), LimitProblem> {
    if name.is_empty() || name.len() > LONGEST_KEY || name.contains('\0') {
        return Err(LimitProblem::Name);
    }
    match rate {
        Some(rate) => rate.check(most),
        None if most == 0 || most > MOST_AT_ONCE => Err(LimitProblem::Number(most)),
        None => Ok(()),
    }
}
