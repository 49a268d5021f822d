//! The column `flow`: the rules of a job as the databases store them. Their statements and functions read its JSON.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobRule, OnDiscard, OnFull, Rule, Rules};

/// What is stored of the rules of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRules<'a> {
    /// The name of the rule for which it waits first. Empty for the lane of a job with several rules.
    pub name: Cow<'a, str>,
    /// Its key, or the lane.
    pub key: Cow<'a, str>,
    /// How many jobs of this name and key may run at once, or start in the period of a rate.
    pub most: u32,
    /// The [flags](crate::flags) of the job.
    pub flags: i32,
    /// The JSON.
    pub flow: String,
}

/// The JSON of one rule, or of all rules of a job.
#[derive(Serialize, Deserialize)]
struct Flow<'a> {
    limit: Cow<'a, str>,
    key: Cow<'a, str>,
    most: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<OnDiscard>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<FlowRate>,
    #[serde(default, skip_serializing_if = "OnFull::is_wait")]
    on_full: OnFull,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fair: Option<Cow<'a, str>>,
    /// The lane in which a job of a sequence waits for the other rules after its turn has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane: Option<Cow<'a, str>>,
    /// If there are several rules: all but the sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limits: Vec<Flow<'a>>,
}

/// The period in microseconds.
#[derive(Serialize, Deserialize)]
struct FlowRate {
    per: u64,
    burst: u32,
}

impl<'a> Flow<'a> {
    fn of(JobRule { name, key, rule, tenant }: &'a JobRule) -> Self {
        let (most, sequence, rate) = match *rule {
            Rule::Concurrency { most, .. } => (most, None, None),
            Rule::Sequence { on_discard } => (1, Some(on_discard), None),
            Rule::Rate { limit, per, burst, .. } => {
                (limit, None, Some(FlowRate { per: u64::try_from(per.as_micros()).unwrap_or(u64::MAX), burst }))
            }
        };
        Self {
            limit: Cow::Borrowed(name),
            key: Cow::Borrowed(key),
            most,
            sequence,
            rate,
            on_full: rule.on_full(),
            fair: tenant.as_deref().map(Cow::Borrowed),
            lane: None,
            limits: Vec::new(),
        }
    }

    fn of_all(rules: &'a Rules) -> Option<Self> {
        let (first, others) = (rules.first()?, rules.beside_sequence());
        if !rules.are_several() {
            return Some(Self::of(first));
        }
        let (limits, lane) = (others.iter().map(Self::of).collect(), Cow::Owned(rules.lane()));
        Some(match first.rule.on_discard() {
            Some(_) => Self { lane: Some(lane), limits, ..Self::of(first) },
            None => Self {
                limit: Cow::Borrowed(""),
                key: lane,
                most: 1,
                sequence: None,
                rate: None,
                on_full: OnFull::Wait,
                fair: None,
                lane: None,
                limits,
            },
        })
    }

    /// A struct of texts, numbers and lists can always be written as JSON.
    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn into_rule(self) -> JobRule {
        let Self { limit, key, most, sequence, rate, on_full, fair, .. } = self;
        let rule = match (sequence, rate) {
            (Some(on_discard), _) => Rule::Sequence { on_discard },
            (None, Some(FlowRate { per, burst })) => {
                Rule::Rate { limit: most, per: Duration::from_micros(per), burst, on_full }
            }
            (None, None) => Rule::Concurrency { most, on_full },
        };
        JobRule { name: limit.into_owned(), key: key.into_owned(), rule, tenant: fair.map(Cow::into_owned) }
    }
}

impl Rules {
    /// What is stored of these rules. `None` if there are none.
    pub fn to_stored(&self) -> Option<StoredRules<'_>> {
        let flow = Flow::of_all(self)?;
        let json = flow.json();
        Some(StoredRules { name: flow.limit, key: flow.key, most: flow.most, flags: self.flags(), flow: json })
    }

    /// The JSON alone.
    pub fn to_flow(&self) -> Option<String> {
        Flow::of_all(self).map(|flow| flow.json())
    }

    /// Reads the stored JSON.
    pub fn read(flow: &[u8]) -> serde_json::Result<Self> {
        let mut flow: Flow<'_> = serde_json::from_slice(flow)?;
        let limits = std::mem::take(&mut flow.limits).into_iter().map(Flow::into_rule);
        let first = (flow.sequence.is_some() || limits.len() == 0).then(|| flow.into_rule());
        Ok(Self::stored(first.into_iter().chain(limits).collect()))
    }
}

impl JobRule {
    /// The stored JSON of this rule alone.
    pub fn to_flow(&self) -> String {
        Flow::of(self).json()
    }

    /// Reads the stored JSON of one rule.
    pub fn read(flow: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(flow).map(Flow::into_rule)
    }
}
