//! Rates: how many jobs with the same key may start in a period. Each start spends a token, and tokens come at equal intervals (the generic cell
//! rate algorithm, GCRA).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Concurrency, JobLimit, Limit, LimitProblem, OnFull};

/// The largest number of starts of a rate in its period.
pub(super) const MOST_OF_RATE: u32 = 1_000_000;
/// The largest burst.
pub(super) const MOST_BURST: u32 = 10_000;
/// The shortest time between two tokens, in microseconds.
const SHORTEST: u64 = 100;
/// The longest period of a rate.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest time in which all tokens of a key come.
const HUNDRED_YEARS: Duration = Duration::from_secs(36_525 * 24 * 3600);
/// Without `burst`, a key can keep the tokens of this time (in microseconds), and at least one.
const USUAL_BURST: u64 = 100_000;

/// The rate of a kind, without its name and number. Made by [`Concurrency::rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSpec {
    /// The period.
    pub per: Duration,
    /// How many jobs may start at once. `None`: the starts of a tenth of a second, and at least 1.
    pub burst: Option<u32>,
}

impl Concurrency {
    /// At most this many starts in this period. `rate(limit = 100, per = "1m", by(account))` in `#[job]` makes one.
    pub const fn rate(name: &'static str, limit: u32, per: Duration) -> Self {
        Self {
            name,
            most: limit,
            by: &[],
            sequence: None,
            rate: Some(RateSpec { per, burst: None }),
            on_full: OnFull::Wait,
            fair: &[],
        }
    }

    /// Sets how many jobs of a rate may start at once. A limit has no burst.
    pub const fn burst(mut self, burst: u32) -> Self {
        if let Some(rate) = self.rate {
            self.rate = Some(RateSpec { burst: Some(burst), ..rate });
        }
        self
    }
}

/// The rate of one job, see [`Job::rate`](crate::Job::rate).
#[derive(Clone, Debug)]
#[must_use = "pass it to `rate`"]
pub struct Rate {
    limit: Limit,
    spec: RateSpec,
}

impl Rate {
    /// At most `limit` starts in the period `per`, of all jobs of the rate with this name. `limit` is from 1 to 1,000,000, and `per` from 1 ms to
    /// 366 days. A rate allows at most 10,000 starts in a second. The enqueue refuses other values.
    pub fn new(name: impl Into<String>, limit: u32, per: Duration) -> Self {
        Self { limit: Limit::new(name, limit), spec: RateSpec { per, burst: None } }
    }

    /// Sets how many jobs may start at once after a quiet time, from 1 to 10,000. Default: the number of starts in a tenth of a second, at least 1.
    pub fn burst(mut self, burst: u32) -> Self {
        self.spec.burst = Some(burst);
        self
    }

    /// The jobs with each value have their own tokens. Several calls make a key of several values. A value is a text, a whole
    /// number, a boolean or null.
    pub fn key(mut self, value: impl Serialize) -> Self {
        self.limit = self.limit.key(value);
        self
    }

    /// Sets what happens to the job if there is no token when it becomes due: it waits or is discarded. Default: it waits.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.limit = self.limit.on_full(on_full);
        self
    }

    pub(crate) fn into_limit(self) -> Limit {
        Limit { rate: Some(self.spec), ..self.limit }
    }
}

/// The rate of a stored job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRate {
    /// The period, in microseconds. The number of starts is that of the limit.
    pub per: u64,
    /// How many jobs may start at once.
    pub burst: u32,
}

impl JobRate {
    /// The period, in the notation of the options, such as `1m`.
    pub fn span(self) -> String {
        let millis = self.per / 1000;
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        let whole = units.into_iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
        whole.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
    }

    /// The rate with this many starts, if it may be stored. The SQL function `jobs.flow` makes the same.
    pub(super) fn of(most: u32, spec: RateSpec) -> Result<Self, LimitProblem> {
        if spec.per > LONGEST {
            return Err(LimitProblem::Per);
        }
        let per = u64::try_from(spec.per.as_micros()).unwrap_or(u64::MAX);
        let usual = || u32::try_from(u64::from(most) * USUAL_BURST / per.max(1)).unwrap_or(MOST_BURST);
        let rate = Self { per, burst: spec.burst.unwrap_or_else(|| usual().clamp(1, MOST_BURST)) };
        rate.check(most)?;
        Ok(rate)
    }

    pub(super) fn check(self, most: u32) -> Result<(), LimitProblem> {
        if most == 0 || most > MOST_OF_RATE {
            return Err(LimitProblem::Starts(most));
        }
        if self.burst == 0 || self.burst > MOST_BURST {
            return Err(LimitProblem::Burst(self.burst));
        }
        if self.per < 1000 || u128::from(self.per) > LONGEST.as_micros() {
            return Err(LimitProblem::Per);
        }
        if u128::from(self.per) * u128::from(self.burst) / u128::from(most) > HUNDRED_YEARS.as_micros() {
            return Err(LimitProblem::SlowBurst);
        }
        if self.per < SHORTEST * u64::from(most) {
            return Err(LimitProblem::TooFast);
        }
        Ok(())
    }
}

/// The tokens of a key, at one time. All times are in microseconds. This is the arithmetic of `jobs.free_in_rate` on PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The largest number of tokens.
    burst: i64,
    /// The time between two tokens. It is rounded up, so that never too many jobs start.
    every: i64,
    /// The time until the key has all its tokens.
    lack: i64,
}

impl Bucket {
    /// The tokens of a key that has all its tokens again in `lack`. `lack` is limited to the time of all tokens: the clock may have been set
    /// back, or an earlier job had another rate. `None` if the limit is no rate, or an invalid one.
    pub fn of(limit: &JobLimit, lack: i64) -> Option<Self> {
        let rate = limit.rate?;
        rate.check(limit.most).ok()?;
        let JobRate { per, burst } = rate;
        let every = per.div_ceil(u64::from(limit.most));
        let (burst, every) = (i64::from(burst), i64::try_from(every).unwrap_or(i64::MAX));
        Some(Self { burst, every, lack: lack.clamp(0, burst.saturating_mul(every)) })
    }

    /// How many jobs may start now.
    pub const fn tokens(self) -> i64 {
        (self.burst * self.every - self.lack) / self.every
    }

    /// The tokens after this many starts.
    #[must_use]
    pub const fn spend(self, starts: i64) -> Self {
        Self { lack: self.lack + starts * self.every, ..self }
    }

    /// The time until the key has all its tokens.
    pub const fn lack(self) -> i64 {
        self.lack
    }

    /// The time until the next pass of admission for this key, if there is no token. If tokens come fast, a pass gives out several at once: at most
    /// a quarter of the burst, and at most those of 20 ms.
    pub fn next_look(self) -> i64 {
        let several = (self.burst / 4).max(1).min((20_000 / self.every).max(1));
        self.lack - (self.burst - several) * self.every
    }

    /// The time until a job gets a token, if `ahead` jobs of its key come before it. Zero if there is a token for it.
    pub const fn wait(self, ahead: i64) -> i64 {
        let wait = self.lack.saturating_sub((self.burst - 1 - ahead).saturating_mul(self.every));
        if wait > 0 { wait } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntoNewJob as _, Job as _};

    const SECOND: Duration = Duration::from_secs(1);

    fn limit(most: u32, per: Duration, burst: u32) -> JobLimit {
        Rate::new("api", most, per).burst(burst).into_limit().of().unwrap()
    }

    /// The start times of jobs that all wait from the time 0 on. The bucket is examined at each time at which it asks for that.
    fn starts(limit: &JobLimit, jobs: usize) -> Vec<i64> {
        let (mut now, mut full_at, mut starts) = (0, 0, Vec::new());
        while starts.len() < jobs {
            let bucket = Bucket::of(limit, full_at - now).unwrap();
            let number = bucket.tokens();
            starts.extend(std::iter::repeat_n(now, usize::try_from(number).unwrap()));
            let bucket = bucket.spend(number);
            full_at = now + bucket.lack();
            assert!(bucket.next_look() > 0, "it would look again and again");
            now += bucket.next_look();
        }
        starts.truncate(jobs);
        starts
    }

    #[test]
    fn first_a_burst_and_then_one_after_the_other() {
        assert_eq!(starts(&limit(10, SECOND, 3), 6), [0, 0, 0, 100_000, 200_000, 300_000]);
        assert_eq!(starts(&limit(3, SECOND, 1), 4), [0, 333_334, 666_668, 1_000_002]);
        // 1000 a second: several at once. In any period, at most as many as the burst plus the tokens of the period.
        let all = starts(&limit(1000, SECOND, 100), 2000);
        for (first, start) in all.iter().enumerate() {
            for (last, end) in all.iter().enumerate().skip(first) {
                let number = i64::try_from(last - first + 1).unwrap();
                assert!(number <= 100 + (end - start) / 1000, "{number} from {start} to {end}");
            }
        }
        assert!(all.last().unwrap() <= &1_920_000, "{all:?}");
    }

    #[test]
    fn tokens_come_back_up_to_the_burst() {
        let limit = limit(10, SECOND, 3);
        for (lack, tokens, next) in
            [(0, 3, -200_000), (1, 2, -199_999), (200_000, 1, 0), (200_001, 0, 1), (300_000, 0, 100_000)]
        {
            let bucket = Bucket::of(&limit, lack).unwrap();
            assert_eq!((bucket.tokens(), bucket.next_look()), (tokens, next), "{lack}");
        }
        // The clock was set back, or the rate was another one.
        assert_eq!(Bucket::of(&limit, i64::MAX).unwrap().next_look(), 100_000);
        assert_eq!(Bucket::of(&limit, i64::MIN).unwrap().tokens(), 3);
        assert_eq!(Bucket::of(&limit, 300_000).unwrap().wait(2), 300_000);
        assert_eq!(Bucket::of(&limit, 0).unwrap().wait(2), 0);
        assert_eq!(Bucket::of(&Limit::new("x", 1).of().unwrap(), 0), None);
    }

    #[derive(Serialize, Deserialize)]
    struct Call {
        account: i64,
    }

    impl crate::Job for Call {
        const KIND: &'static str = "call";
        const OPTIONS: crate::JobOptions = crate::JobOptions::new()
            .concurrency(Concurrency::rate("api", 100, Duration::from_secs(60)).burst(10).by(&["account"]));
    }

    #[test]
    fn a_rate_is_stored_with_its_job() {
        let limit = Call { account: 7 }.into_new_job().unwrap().limit.unwrap();
        assert_eq!(limit.to_json(), r#"{"limit":"api","key":"[7]","most":100,"rate":{"per":60000000,"burst":10}}"#);
        assert_eq!(limit.flags(), 9);
        assert_eq!(limit.clone().checked(), Ok(*limit));
        let own = Call { account: 7 }.rate(Rate::new("own", 1000, SECOND).key("x")).into_new_job().unwrap();
        let own = own.limit.unwrap();
        assert_eq!(own.to_json(), r#"{"limit":"own","key":"[\"x\"]","most":1000,"rate":{"per":1000000,"burst":100}}"#);
    }

    #[test]
    fn bad_rates_are_refused() {
        let of = |most, per, burst| Rate::new("api", most, per).burst(burst).into_limit().of().map(drop);
        assert_eq!(of(0, SECOND, 1), Err(LimitProblem::Starts(0)));
        assert_eq!(of(MOST_OF_RATE + 1, LONGEST, 1), Err(LimitProblem::Starts(MOST_OF_RATE + 1)));
        assert_eq!(of(1, SECOND, 0), Err(LimitProblem::Burst(0)));
        assert_eq!(of(1, SECOND, MOST_BURST + 1), Err(LimitProblem::Burst(MOST_BURST + 1)));
        for per in [Duration::ZERO, Duration::from_micros(999), LONGEST + SECOND, Duration::MAX] {
            assert_eq!(of(1, per, 1), Err(LimitProblem::Per), "{per:?}");
        }
        assert_eq!(of(10_001, SECOND, 1), Err(LimitProblem::TooFast));
        assert_eq!(of(10_000, SECOND, 1), Ok(()));
    }
}
