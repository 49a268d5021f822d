//! The limit for a long outage: the ticks of years are processed within a second.

use std::time::{Duration, Instant};

use diesel_jobs::schedule::{CatchUp, Schedule};

use crate::table::alone;

#[test]
fn years_of_outage_are_processed_within_a_second() {
    let _alone = alone();
    let schedule = Schedule::parse("* * * * * *", "UTC").unwrap();
    let (last, now) = ("1996-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T00:00:00Z".parse().unwrap());
    for catch_up in [CatchUp::Skip, CatchUp::Last] {
        let begun = Instant::now();
        assert!(!schedule.due(last, now, catch_up).ticks.is_empty());
        assert!(begun.elapsed() < Duration::from_secs(1), "{catch_up}: took {:?}", begun.elapsed());
    }
}
