//! What happens to a job that finds its limit full. A pass of admission finds such jobs, see `maintenance/admitter.rs`.

use serde::{Deserialize, Serialize};

use super::{Concurrency, JobLimit, Limit, LimitProblem};
use crate::error::{Failure, FailureKind};
use crate::failure::cancel_fingerprint;

/// What happens to a job whose limit is full when it becomes due. It applies to jobs that have not started. A job that waits for its next attempt or
/// snoozes waits in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFull {
    /// It waits.
    #[default]
    Wait,
    /// It is discarded.
    Discard,
    /// The oldest jobs of its key that have this rule are cancelled, also running ones, until as many are left as the limit allows. A rate cannot have this rule.
    CancelOldest,
}

impl OnFull {
    /// The name that is stored, and written in `#[job]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Discard => "discard",
            Self::CancelOldest => "cancel_oldest",
        }
    }

    /// Reads the stored name. An unknown name means [`Wait`](Self::Wait).
    pub fn parse(text: &str) -> Self {
        [Self::Discard, Self::CancelOldest].into_iter().find(|known| known.as_str() == text).unwrap_or_default()
    }

    /// Whether it is the default.
    pub const fn is_wait(&self) -> bool {
        matches!(self, Self::Wait)
    }

    /// The text after a limit in commands and pages. Empty for jobs that wait.
    pub const fn shown(self) -> &'static str {
        match self {
            Self::Wait => "",
            Self::Discard => "; a job that finds it full is discarded",
            Self::CancelOldest => "; a job that finds it full cancels the oldest one",
        }
    }

    /// The stored reason of a job that ends because of the limit with this name. `None` if it waits.
    #[doc(hidden)]
    pub fn failure(self, limit: &str) -> Option<Failure> {
        let (text, group) = match self {
            Self::Wait => return None,
            Self::Discard => (format!("its limit `{limit}` was full"), "its limit was full"),
            Self::CancelOldest => {
                (format!("its limit `{limit}` was full, and newer jobs took its place"), "newer jobs took its place")
            }
        };
        let mut failure = Failure::new(FailureKind::Cancelled, &text);
        failure.fingerprint = cancel_fingerprint(group);
        Some(failure)
    }
}

impl Concurrency {
    /// Sets what happens to a job that finds the limit full. Default: it waits.
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }
}

impl Limit {
    /// Sets what happens to the job if its limit is full when it becomes due. Default: it waits.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }
}

impl JobLimit {
    /// The same limit with this rule. Fails if the limit cannot have it.
    pub(super) fn with_on_full(self, on_full: OnFull) -> Result<Self, LimitProblem> {
        match on_full {
            OnFull::Wait => {}
            _ if self.sequence.is_some() || self.is_several() => return Err(LimitProblem::OnFullOfSeveral),
            _ if self.fair.is_some() => return Err(LimitProblem::FairOnFull),
            OnFull::CancelOldest if self.rate.is_some() => return Err(LimitProblem::CancelForToken),
            OnFull::Discard | OnFull::CancelOldest => {}
        }
        Ok(Self { on_full, ..self })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{IntoNewJob as _, Job as _, JobBuilder, JobOptions, Rate, Sequence, flags};

    #[derive(Serialize, Deserialize)]
    struct Charge {
        account: i64,
    }

    impl crate::Job for Charge {
        const KIND: &'static str = "charge";
        const OPTIONS: JobOptions =
            JobOptions::new().concurrency(Concurrency::new("charge", 3).by(&["account"]).on_full(OnFull::CancelOldest));
    }

    fn of(job: impl Into<JobBuilder>) -> JobLimit {
        *job.into().into_new_job().unwrap().limit.unwrap()
    }

    fn refused(job: impl Into<JobBuilder>) -> String {
        job.into().into_new_job().unwrap_err().to_string()
    }

    fn second() -> Duration {
        Duration::from_secs(1)
    }

    #[test]
    fn the_rule_is_stored_with_the_job() {
        let limit = of(Charge { account: 7 });
        assert_eq!(limit.to_json(), r#"{"limit":"charge","key":"[7]","most":3,"on_full":"cancel_oldest"}"#);
        assert_eq!(limit.flags(), flags::LIMITED | flags::ON_FULL);
        let stored: JobLimit = serde_json::from_str(&limit.to_json()).unwrap();
        assert_eq!(stored.checked(), Ok(limit));
        let limit = of(Charge { account: 7 }.concurrency(Limit::new("bank", 1)));
        assert_eq!((limit.on_full, limit.flags()), (OnFull::Wait, flags::LIMITED));
        let rate = Rate::new("calls", 10, second()).on_full(OnFull::Discard);
        let limit = of(Call.rate(rate));
        assert!(limit.to_json().ends_with(r#","on_full":"discard"}"#), "{}", limit.to_json());
        assert_eq!(limit.flags(), flags::LIMITED | flags::RATE | flags::ON_FULL);
        assert_eq!(limit.clone().checked(), Ok(limit));
        for rule in [OnFull::Wait, OnFull::Discard, OnFull::CancelOldest] {
            assert_eq!(OnFull::parse(rule.as_str()), rule);
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.as_str());
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Call;

    impl crate::Job for Call {
        const KIND: &'static str = "call";
    }

    #[test]
    fn only_one_limit_can_have_a_rule() {
        let several = "job `charge`: `on_full` is for a job with one limit or rate; a job with several of them, or with a sequence, waits";
        assert_eq!(refused(Charge { account: 7 }.sequence(Sequence::new("orders"))), several);
        assert_eq!(refused(Charge { account: 7 }.rate(Rate::new("calls", 10, second()))), several);
        let rate = Rate::new("calls", 10, second()).on_full(OnFull::CancelOldest);
        assert!(refused(Call.rate(rate)).contains("frees no token"));
        let mut sequence = of(Call.sequence(Sequence::new("orders")));
        sequence.on_full = OnFull::Discard;
        assert_eq!(sequence.checked(), Err(LimitProblem::OnFullOfSeveral));
    }
}
