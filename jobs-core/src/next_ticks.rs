//! The next ticks of a schedule, as every view of it shows them. A schedule ticks only after its newest tick, so that
//! no time of it has two jobs. If the database's clock is set back, the newest tick is in the future. The schedule then
//! stands still until that time, or until a person decides that the times in between may have jobs again.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::schedule::Schedule;

/// How far in the future the newest tick may be. A schedule that stands still for less goes on by itself, sooner than
/// an operator could act.
const AHEAD: TimeDelta = TimeDelta::minutes(5);

impl Schedule {
    /// The ticks that are still to come.
    pub fn next_ticks(&self, last_tick: DateTime<Utc>, now: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        std::iter::successors(self.next_after(now.max(last_tick)), |tick| self.next_after(*tick))
    }

    /// Why a schedule with this newest tick stands still. `None` if it does not.
    pub fn stands_still(last_tick: DateTime<Utc>, now: DateTime<Utc>) -> Option<String> {
        (last_tick - now > AHEAD).then(|| {
            let last = last_tick.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1);
            format!("its newest tick is at {last}, in the future, so it stands still until then: the clock of the database has gone back")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_whose_newest_tick_is_in_the_future_goes_on_after_it() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let minutely = Schedule::parse("* * * * *", "UTC").unwrap();
        let minutes = |of: DateTime<Utc>| -> Vec<i64> {
            minutely.next_ticks(of, now).take(2).map(|tick| (tick - now).num_minutes()).collect()
        };
        assert_eq!(minutes(now - TimeDelta::days(1)), [1, 2]);
        assert_eq!(minutes(now + TimeDelta::minutes(60)), [61, 62]);
        let text = |ahead| Schedule::stands_still(now + ahead, now);
        assert_eq!((text(TimeDelta::minutes(-1)), text(TimeDelta::minutes(5))), (None, None));
        let text = text(TimeDelta::minutes(6)).unwrap();
        assert!(text.starts_with("its newest tick is at 2027-01-15 08:06:00Z, in the future"), "{text}");
    }
}
