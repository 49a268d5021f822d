//! Whether the clocks of the database and of this machine agree.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::storage::Finding;

/// How far two clocks may be apart.
const APART: Duration = Duration::from_secs(2);

/// Compares the clock of the database with that of this machine, which was read before and after the query.
pub fn clocks(before: DateTime<Utc>, database: DateTime<Utc>, after: DateTime<Utc>) -> Option<Finding> {
    let apart = (before - database).max(database - after);
    let apart = apart.to_std().ok().filter(|apart| *apart > APART)?;
    let (seconds, which) = (apart.as_secs(), if database < before { "behind" } else { "ahead of" });
    Some(Finding::warning(
        "clock_skew",
        format!(
            "the database's clock is {seconds} s {which} this machine's. Jobs run by the database's clock, so times that \
             applications compute are early or late by that much"
        ),
        "synchronise both clocks: timedatectl set-ntp true",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    #[test]
    fn clocks_may_differ_by_the_time_of_the_query_and_two_seconds() {
        assert_eq!(clocks(at(0), at(2), at(0)), None);
        assert_eq!(clocks(at(0), at(-2), at(0)), None);
        assert_eq!(clocks(at(0), at(9), at(10)), None, "the query took 10 s");
        let ahead = clocks(at(0), at(63), at(3)).unwrap();
        assert!(ahead.what.contains("60 s ahead of"), "{ahead:?}");
        let behind = clocks(at(60), at(0), at(63)).unwrap();
        assert!(behind.what.contains("60 s behind"), "{behind:?}");
    }
}
