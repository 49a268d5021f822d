//! Several limits of one job: it starts when all of them allow it, and takes all slots and tokens at once.
//!
//! Jobs with the same limits and the same keys wait in one *lane*. Only the first job of a lane is compared with its limits, and it waits at one
//! that is full. Without lanes, all these jobs would move repeatedly from one full limit to another.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{JobLimit, LONGEST_KEY, LimitProblem, hashed};

/// The most limits of one job.
pub const MOST_LIMITS_OF_JOB: usize = 4;

impl JobLimit {
    /// All of these limits as one. `None` if there are none.
    pub(crate) fn all_of(
        mut limits: impl Iterator<Item = Result<Self, LimitProblem>>,
    ) -> Result<Option<Box<Self>>, LimitProblem> {
        let Some(first) = limits.next() else { return Ok(None) };
        let further: Vec<Self> = limits.collect::<Result<_, _>>()?;
        let limit = if further.is_empty() { first? } else { Self::several(first?, further)? };
        Ok(Some(Box::new(limit)))
    }

    /// A sequence comes first: the job waits for its turn, and then for the other limits.
    fn several(first: Self, further: Vec<Self>) -> Result<Self, LimitProblem> {
        let mut limits: Vec<Self> = std::iter::once(first).chain(further).collect();
        if limits.len() > MOST_LIMITS_OF_JOB {
            return Err(LimitProblem::TooMany(limits.len()));
        }
        if limits.iter().any(|limit| limit.fair.is_some()) {
            return Err(LimitProblem::FairOfSeveral);
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = limits.iter().find(|limit| !names.insert(&*limit.name)) {
            return Err(LimitProblem::Twice(twice.name.clone()));
        }
        let sequence = limits.iter().position(|limit| limit.sequence.is_some()).map(|place| limits.remove(place));
        if limits.iter().any(|limit| limit.sequence.is_some()) {
            return Err(LimitProblem::Sequences);
        }
        if limits.iter().any(|limit| !limit.on_full.is_wait()) {
            return Err(LimitProblem::OnFullOfSeveral);
        }
        let lane = lane(&limits);
        Ok(match sequence {
            Some(sequence) => Self { lane: Some(lane), limits, ..sequence },
            None => Self { key: lane, limits, ..Self::default() },
        })
    }

    /// All limits of the job, its sequence first. A job with one limit has only itself.
    pub fn each(&self) -> Vec<Self> {
        let alone = || Self { lane: None, limits: Vec::new(), ..self.clone() };
        if self.limits.is_empty() {
            return vec![alone()];
        }
        self.sequence.map(|_| alone()).into_iter().chain(self.limits.iter().cloned()).collect()
    }

    /// Whether these are several limits.
    pub fn is_several(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The same limits, if they are valid.
    pub(super) fn checked_all(self) -> Result<Self, LimitProblem> {
        let mut each = self.each().into_iter().map(|limit| match limit.is_several() || limit.lane.is_some() {
            true => Err(LimitProblem::Nested),
            false => limit.checked(),
        });
        let Some(first) = each.next() else { return Err(LimitProblem::Nested) };
        let again = Self::several(first?, each.collect::<Result<_, _>>()?)?;
        if again == self { Ok(self) } else { Err(LimitProblem::Nested) }
    }
}

/// The lane of jobs with these limits: their names and keys as a JSON list, or its hash. After the key of a rate there is a 1. A rate has no
/// slots. So a job with a rate must not share a lane with a job that needs a slot of the same name. The SQL function `jobs.lane` makes
/// the same text.
fn lane(limits: &[JobLimit]) -> String {
    let mut limits: Vec<&JobLimit> = limits.iter().collect();
    limits.sort_unstable_by_key(|limit| (&limit.name, &limit.key));
    let places = limits.into_iter().flat_map(|limit| {
        let sort = limit.rate.map(|_| Value::from(1));
        [Value::from(&*limit.name), Value::from(&*limit.key)].into_iter().chain(sort)
    });
    let text = Value::Array(places.collect()).to_string();
    if text.len() <= LONGEST_KEY { text } else { hashed(&text) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{
        Concurrency, IntoNewJob as _, Job as _, JobBuilder, JobOptions, Limit, OnDiscard, Rate, Sequence, flags,
    };

    #[derive(Serialize, Deserialize)]
    struct Charge {
        account: i64,
    }

    impl crate::Job for Charge {
        const KIND: &'static str = "charge";
        const OPTIONS: JobOptions = JobOptions::new()
            .limits(&[Concurrency::new("account", 2).by(&["account"]), Concurrency::new("stripe", 10)]);
    }

    fn of(job: impl Into<JobBuilder>) -> JobLimit {
        *job.into().into_new_job().unwrap().limit.unwrap()
    }

    fn refused(job: impl Into<JobBuilder>) -> String {
        job.into().into_new_job().unwrap_err().to_string()
    }

    #[test]
    fn several_limits_are_stored_with_their_lane() {
        let limit = of(Charge { account: 7 });
        assert_eq!(
            limit.to_json(),
            r#"{"limit":"","key":"[\"account\",\"[7]\",\"stripe\",\"[]\"]","most":1,"limits":[{"limit":"account","key":"[7]","most":2},{"limit":"stripe","key":"[]","most":10}]}"#
        );
        assert_eq!(limit.flags(), flags::LIMITED | flags::SEVERAL);
        let stored: JobLimit = serde_json::from_str(&limit.to_json()).unwrap();
        assert_eq!(stored.clone().checked(), Ok(limit));
        let names: Vec<String> = stored.each().into_iter().map(|limit| limit.name).collect();
        assert_eq!(names, ["account", "stripe"]);
    }

    #[test]
    fn a_sequence_comes_first() {
        let limit = of(Charge { account: 7 }.sequence(Sequence::new("orders").key(1).on_discard(OnDiscard::Skip)));
        assert_eq!((&*limit.name, &*limit.key, limit.most), ("orders", "[1]", 1));
        assert_eq!(limit.lane.as_deref(), Some(&*of(Charge { account: 7 }).key));
        assert_eq!(limit.flags(), flags::LIMITED | flags::SEVERAL | flags::SEQUENCE);
        assert_eq!(limit.each().len(), 3);
        assert_eq!(limit.clone().checked(), Ok(limit));
    }

    #[test]
    fn an_own_limit_replaces_those_of_the_kind_of_the_same_sort() {
        let limit = of(Charge { account: 7 }.concurrency(Limit::new("bank", 1)));
        assert_eq!((limit.name.as_str(), limit.is_several()), ("bank", false));
        let rate = || Rate::new("calls", 10, Duration::from_secs(1));
        let limit = of(Charge { account: 7 }.rate(rate()));
        let names: Vec<String> = limit.each().into_iter().map(|limit| limit.name).collect();
        assert_eq!(names, ["account", "stripe", "calls"]);
        let limit =
            of(Charge { account: 7 }.concurrency(Limit::new("a", 1)).concurrency(Limit::new("b", 1)).rate(rate()));
        let names: Vec<String> = limit.each().into_iter().map(|limit| limit.name).collect();
        assert_eq!(names, ["a", "b", "calls"]);
    }

    #[test]
    fn the_order_of_the_limits_does_not_change_the_lane() {
        let of = |names: [&str; 2]| {
            of(Charge { account: 7 }.concurrency(Limit::new(names[0], 1)).concurrency(Limit::new(names[1], 1)))
        };
        assert_eq!(of(["a", "b"]).key, of(["b", "a"]).key);
        let long = of([&"a".repeat(150), &"b".repeat(150)]).key;
        assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
    }

    #[test]
    fn what_cannot_be_combined_is_refused() {
        let twice = refused(Charge { account: 7 }.rate(Rate::new("stripe", 1, Duration::from_secs(1))));
        assert!(twice.starts_with("job `charge`: two of its limits have the name `stripe`"), "{twice}");
        let sequences = refused(Charge { account: 7 }.sequence(Sequence::new("a")).sequence(Sequence::new("b")));
        assert_eq!(sequences, "job `charge`: a job is in one sequence at most");
        let many = (0..5).fold(JobBuilder::new(Charge { account: 7 }), |job, number| {
            job.concurrency(Limit::new(number.to_string(), 1))
        });
        assert_eq!(refused(many), "job `charge`: a job has at most 4 limits, not 5");
        let mut foreign = of(Charge { account: 7 });
        foreign.key = "[]".to_owned();
        assert_eq!(foreign.checked(), Err(LimitProblem::Nested));
        let mut nested = of(Charge { account: 7 });
        nested.limits[0] = nested.clone();
        assert_eq!(nested.checked(), Err(LimitProblem::Nested));
    }
}
