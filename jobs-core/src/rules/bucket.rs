//! Rates: how many jobs with the same key may start in a period. Each start spends a token, and tokens come at equal
//! intervals (the generic cell rate algorithm, GCRA).

use super::Rule;

/// The tokens of a key, at one time. All times are in microseconds. The function `jobs.bucket` on PostgreSQL computes
/// the same.
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
    /// The tokens of a key that has all its tokens again in `lack`. `lack` is limited to the time of all tokens: the
    /// clock may have been set back, or an earlier job had another rate. `None` if the rule is no rate, or an invalid
    /// one.
    pub fn of(rule: Rule, lack: i64) -> Option<Self> {
        let Rule::Rate { limit, per, burst, .. } = rule.checked().ok()? else { return None };
        let every = u64::try_from(per.as_micros()).ok()?.div_ceil(u64::from(limit));
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

    /// The time until the next pass of admission for this key, if there is no token. If tokens come fast, a pass gives
    /// out several at once: at most a quarter of the burst, and at most those of 20 ms.
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
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(limit: u32, per: Duration, burst: u32) -> Rule {
        Rule::rate(limit, per).with_burst(burst)
    }

    /// The start times of jobs that all wait from the time 0 on. The bucket is examined at each time at which it asks
    /// for that.
    fn starts(rate: Rule, jobs: usize) -> Vec<i64> {
        let (mut now, mut full_at, mut starts) = (0, 0, Vec::new());
        while starts.len() < jobs {
            let bucket = Bucket::of(rate, full_at - now).unwrap();
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
        assert_eq!(starts(rate(10, SECOND, 3), 6), [0, 0, 0, 100_000, 200_000, 300_000]);
        assert_eq!(starts(rate(3, SECOND, 1), 4), [0, 333_334, 666_668, 1_000_002]);
        // 1000 a second: several at once. In any period, at most as many as the burst plus the tokens of the period.
        let all = starts(rate(1000, SECOND, 100), 2000);
        for (first, start) in all.iter().enumerate() {
            for (last, end) in all.iter().enumerate().skip(first) {
                let number = i64::try_from(last - first + 1).unwrap();
                assert!(number <= 100 + (end - start) / 1000, "{number} from {start} to {end}");
            }
        }
        assert!(all.last().unwrap() <= &1_920_000, "{all:?}");
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        limit: u32,
        per: u64,
        burst: u32,
        lack: i64,
        left: i64,
        tokens: i64,
        next_look: i64,
    }

    /// The same cases as in `conformance::postgres::rates`.
    #[test]
    fn tokens_come_back_up_to_the_burst() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("bucket/cases.json")).unwrap();
        for case in cases {
            let bucket = Bucket::of(rate(case.limit, Duration::from_micros(case.per), case.burst), case.lack).unwrap();
            let found = (bucket.lack(), bucket.tokens(), bucket.next_look());
            assert_eq!(found, (case.left, case.tokens, case.next_look), "{case:?}");
        }
        let rate = rate(10, SECOND, 3);
        assert_eq!(Bucket::of(rate, i64::MAX).unwrap().next_look(), 100_000);
        assert_eq!(Bucket::of(rate, i64::MIN).unwrap().tokens(), 3);
        assert_eq!(Bucket::of(rate, 300_000).unwrap().wait(2), 300_000);
        assert_eq!(Bucket::of(rate, 0).unwrap().wait(2), 0);
        assert_eq!(Bucket::of(Rule::concurrency(1), 0), None);
    }
}
