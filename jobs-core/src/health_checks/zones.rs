//! Whether a server has the same rules of time zones as this program.
//!
//! Schedules tick by the rules that are compiled into the program, and SQL on the server uses those of the server. Both
//! come from the IANA database, of which a new version appears whenever a country changes its rules.

use std::collections::BTreeSet;

use chrono::{DateTime, Days, Offset as _, Utc};
use chrono_tz::Tz;

use crate::schedule::Schedule;
use crate::storage::{Finding, StoredSchedule};

/// So many days are compared, from today on: two years, so that each rule that is in force is met.
const DAYS: u64 = 730;

/// How far the clock of a time zone is ahead of UTC at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneOffset {
    /// The name of the time zone.
    pub zone: String,
    /// The time.
    pub at: DateTime<Utc>,
    /// Seconds.
    pub seconds: i32,
}

/// A time zone of which the server has other rules, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRules {
    /// The first offset of this program that the server does not have.
    pub ours: ZoneOffset,
    /// The offset by the rules of the server. `None`: the server does not know the time zone.
    pub theirs: Option<i32>,
}

/// The offsets by which the time zones of these schedules are compared with those of a server.
pub fn zone_offsets(schedules: &[StoredSchedule], now: DateTime<Utc>) -> Vec<ZoneOffset> {
    let zones: BTreeSet<&str> = schedules.iter().map(|schedule| schedule.timezone.as_str()).collect();
    let known = zones.into_iter().filter_map(|zone| zone.parse::<Tz>().ok()).filter(|zone| *zone != Tz::UTC);
    let offset = |zone: Tz, at: DateTime<Utc>| ZoneOffset {
        zone: zone.name().to_owned(),
        at,
        seconds: at.with_timezone(&zone).offset().fix().local_minus_utc(),
    };
    let days = |zone: Tz| (0..DAYS).filter_map(move |day| Some(offset(zone, now.checked_add_days(Days::new(day))?)));
    known.flat_map(days).collect()
}

/// Says which time zones the server treats otherwise.
pub fn zones(others: &[OtherRules]) -> Vec<Finding> {
    let ours = Schedule::ZONE_RULES;
    let finding = |OtherRules { ours: ZoneOffset { zone, at, seconds }, theirs }: &OtherRules| {
        let what = match theirs {
            None => format!("the server does not know the time zone {zone}, in which schedules tick"),
            Some(theirs) => format!(
                "the rules of the time zone {zone} differ: on {} it is {} UTC by those of this program (IANA {ours}), and {} UTC by those of the \
                 server. Schedules tick by those of the program that enqueues the jobs",
                at.format("%Y-%m-%d"),
                ahead(*seconds),
                ahead(*theirs),
            ),
        };
        let repair = "update the older one: `cargo update -p chrono-tz` and a deploy for the program, the package tzdata for the server";
        Finding::warning("zone_rules", what, repair)
    };
    others.iter().map(finding).collect()
}

/// `2:00 ahead of`, `3:30 behind`, `level with`.
fn ahead(seconds: i32) -> String {
    let minutes = seconds.unsigned_abs() / 60;
    let span = format!("{}:{:02}", minutes / 60, minutes % 60);
    match seconds {
        0 => "level with".to_owned(),
        1.. => format!("{span} ahead of"),
        _ => format!("{span} behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::CatchUp;
    use crate::storage::ScheduledJob;

    fn in_zone(timezone: &str) -> StoredSchedule {
        StoredSchedule {
            name: "nightly".to_owned(),
            kind: "k".to_owned(),
            expression: "0 0 2 * * *".to_owned(),
            timezone: timezone.to_owned(),
            catch_up: CatchUp::Last,
            last_tick: DateTime::UNIX_EPOCH,
            paused: false,
            is_added: false,
            is_changed: false,
            job: ScheduledJob::default(),
        }
    }

    #[test]
    fn each_day_of_two_years_is_compared_once_for_each_zone() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let schedules = ["Europe/Berlin", "UTC", "Europe/Berlin", "Mars/Base", "Asia/Kolkata"].map(in_zone);
        let offsets = zone_offsets(&schedules, now);
        let of = |zone: &str| offsets.iter().filter(|offset| offset.zone == zone).collect::<Vec<_>>();
        assert_eq!((of("Europe/Berlin").len(), of("Asia/Kolkata").len(), offsets.len()), (730, 730, 1460));
        let seconds: BTreeSet<i32> = of("Europe/Berlin").iter().map(|offset| offset.seconds).collect();
        assert_eq!(seconds, [3600, 7200].into());
        assert!(of("Asia/Kolkata").iter().all(|offset| offset.seconds == 19_800));
        assert!(zone_offsets(&[in_zone("UTC")], now).is_empty());
        assert!(zone_offsets(&schedules, DateTime::<Utc>::MAX_UTC).len() <= 2, "time ends");
    }

    #[test]
    fn a_finding_says_how_both_read_the_clock() {
        let ours = |seconds| ZoneOffset { zone: "America/Caracas".to_owned(), at: DateTime::UNIX_EPOCH, seconds };
        let text = |seconds, theirs| zones(&[OtherRules { ours: ours(seconds), theirs }]).remove(0).what;
        let both = text(-4 * 3600, Some(-12_600));
        assert!(both.contains("on 1970-01-01 it is 4:00 behind UTC by those of this program (IANA 20"), "{both}");
        assert!(both.contains("and 3:30 behind UTC by those of the server"), "{both}");
        assert!(text(0, Some(3600)).contains("is level with UTC by those of this"), "{both}");
        assert!(text(0, None).contains("does not know the time zone America/Caracas"));
    }
}
