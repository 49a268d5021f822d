//! Schedules at changes of the clocks, in two time zones, and after outages, as documented for
//! `diesel_jobs_core::Schedule`.

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs::schedule::{CatchUp, Schedule};

const PARIS: &str = "Europe/Paris";
const NEW_YORK: &str = "America/New_York";

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Returns the ticks between two times, in the local time of the zone.
fn ticks(expression: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let schedule = Schedule::parse(expression, zone).unwrap();
    let clock: chrono_tz::Tz = zone.parse().unwrap();
    let mut ticks = Vec::new();
    let mut last = at(from);
    while let Some(tick) = schedule.next_after(last).filter(|tick| *tick < at(to)) {
        assert!(tick > last, "ticks go forward");
        ticks.push(tick.with_timezone(&clock).format("%d %H:%M:%S %Z").to_string());
        last = tick;
    }
    ticks
}

// In 2026 the clocks in Paris go forward on 29 March (02:00 CET is 03:00 CEST, 01:00 UTC) and back on 25 October (03:00
// CEST is 02:00 CET, 01:00 UTC). In New York they go forward on 8 March (02:00 EST is 03:00 EDT, 07:00 UTC) and back on
// 1 November (02:00 EDT is 01:00 EST, 06:00 UTC).

#[test]
fn a_fixed_time_in_the_gap_runs_once_at_its_end() {
    assert_eq!(
        ticks("0 30 2 * * *", PARIS, "2026-03-27T23:00:00Z", "2026-03-30T22:00:00Z"),
        ["28 02:30:00 CET", "29 03:00:00 CEST", "30 02:30:00 CEST"]
    );
    assert_eq!(
        ticks("0 30 2 * * *", NEW_YORK, "2026-03-07T05:00:00Z", "2026-03-10T04:00:00Z"),
        ["07 02:30:00 EST", "08 03:00:00 EDT", "09 02:30:00 EDT"]
    );
}

#[test]
fn a_fixed_time_at_either_edge_of_the_gap_runs_once() {
    assert_eq!(ticks("0 0 2 * * *", PARIS, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"), ["29 03:00:00 CEST"]);
    assert_eq!(ticks("0 0 3 * * *", PARIS, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"), ["29 03:00:00 CEST"]);
    assert_eq!(ticks("59 59 1 * * *", PARIS, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"), ["29 01:59:59 CET"]);
}

#[test]
fn a_fixed_time_that_exists_twice_runs_once_the_first_time() {
    assert_eq!(
        ticks("0 30 2 * * *", PARIS, "2026-10-23T22:00:00Z", "2026-10-26T23:00:00Z"),
        ["24 02:30:00 CEST", "25 02:30:00 CEST", "26 02:30:00 CET"]
    );
    assert_eq!(
        ticks("0 30 1 * * *", NEW_YORK, "2026-10-31T04:00:00Z", "2026-11-03T05:00:00Z"),
        ["31 01:30:00 EDT", "01 01:30:00 EDT", "02 01:30:00 EST"]
    );
}

#[test]
fn a_wildcard_hour_has_nothing_in_the_gap() {
    assert_eq!(
        ticks("0 30 * * * *", PARIS, "2026-03-28T23:00:00Z", "2026-03-29T03:00:00Z"),
        ["29 00:30:00 CET", "29 01:30:00 CET", "29 03:30:00 CEST", "29 04:30:00 CEST"]
    );
    assert_eq!(
        ticks("0 */30 * * * *", NEW_YORK, "2026-03-08T06:00:00Z", "2026-03-08T08:00:00Z"),
        ["08 01:30:00 EST", "08 03:00:00 EDT", "08 03:30:00 EDT"]
    );
}

#[test]
fn a_wildcard_hour_runs_in_both_passes_of_the_repeated_hour() {
    assert_eq!(
        ticks("0 30 * * * *", PARIS, "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"),
        ["25 01:30:00 CEST", "25 02:30:00 CEST", "25 02:30:00 CET", "25 03:30:00 CET"]
    );
    assert_eq!(
        ticks("0 30 * * * *", NEW_YORK, "2026-11-01T04:00:00Z", "2026-11-01T08:00:00Z"),
        ["01 00:30:00 EDT", "01 01:30:00 EDT", "01 01:30:00 EST", "01 02:30:00 EST"]
    );
}

#[test]
fn a_wildcard_minute_never_pauses_and_never_repeats_across_either_change() {
    for (zone, from) in [
        (PARIS, "2026-03-29T00:00:00Z"),
        (PARIS, "2026-10-25T00:00:00Z"),
        (NEW_YORK, "2026-03-08T06:00:00Z"),
        (NEW_YORK, "2026-11-01T05:00:00Z"),
    ] {
        let schedule = Schedule::parse("0 * * * * *", zone).unwrap();
        let mut last = at(from);
        for _ in 0..180 {
            let next = schedule.next_after(last).unwrap();
            assert_eq!(next - last, TimeDelta::minutes(1), "{zone} after {last}");
            last = next;
        }
    }
}

#[test]
fn a_year_of_a_nightly_schedule_has_one_tick_per_day() {
    for zone in [PARIS, NEW_YORK] {
        for time in ["0 0 0", "0 30 1", "0 0 2", "0 30 2", "0 0 3"] {
            let nightly = ticks(&format!("{time} * * *"), zone, "2026-01-01T12:00:00Z", "2027-01-01T12:00:00Z");
            assert_eq!(nightly.len(), 365, "{time} in {zone}");
        }
    }
}

const BERLIN: &str = "Europe/Berlin";

/// The ticks of 25 October 2026 in Berlin, on which the clock goes from 03:00 CEST to 02:00 CET.
fn autumn(expression: &str) -> Vec<String> {
    ticks(expression, BERLIN, "2026-10-24T21:59:59Z", "2026-10-25T23:00:00Z")
}

/// The ticks of 29 March 2026 in Berlin, on which the clock goes from 02:00 CET to 03:00 CEST.
fn spring(expression: &str) -> Vec<String> {
    ticks(expression, BERLIN, "2026-03-28T22:59:59Z", "2026-03-29T22:00:00Z")
}

#[test]
fn each_time_of_a_list_or_a_range_that_exists_twice_runs_once() {
    assert_eq!(autumn("0,30 2 * * *"), ["25 02:00:00 CEST", "25 02:30:00 CEST"]);
    assert_eq!(autumn("10-12 2 * * *"), ["25 02:10:00 CEST", "25 02:11:00 CEST", "25 02:12:00 CEST"]);
    assert_eq!(autumn("30 2,3 * * *"), ["25 02:30:00 CEST", "25 03:30:00 CET"]);
    assert_eq!(autumn("5,10 2 25 10 *"), ["25 02:05:00 CEST", "25 02:10:00 CEST"]);
    assert_eq!(autumn("7,9 30 2 * * *"), ["25 02:30:07 CEST", "25 02:30:09 CEST"]);
    assert_eq!(autumn("0 1-3 * * *"), ["25 01:00:00 CEST", "25 02:00:00 CEST", "25 03:00:00 CET"]);
    assert_eq!(autumn("10-12,40 2 * OCT SUN").len(), 4);
}

#[test]
fn the_times_of_a_list_or_a_range_in_the_gap_run_together_at_its_end() {
    for expression in
        ["0,30 2 * * *", "15,45 2 * * *", "10-12 2 * * *", "7,9 30 2 * * *", "0 2,3 * * *", "5,10 2 29 3 *"]
    {
        assert_eq!(spring(expression), ["29 03:00:00 CEST"], "{expression}");
    }
    assert_eq!(spring("30 1,2 * * *"), ["29 01:30:00 CET", "29 03:00:00 CEST"]);
    assert_eq!(spring("30 2,3 * * *"), ["29 03:00:00 CEST", "29 03:30:00 CEST"]);
    assert_eq!(spring("0,30 1-3 * * *").len(), 4);
}

#[test]
fn lists_and_ranges_also_keep_to_the_clocks_of_unusual_zones() {
    // Lord Howe moves its clocks by half an hour: on 5 April 2026 from 02:00 +11 to 01:30 +1030, on 4 October from
    // 02:00 +1030 to 02:30 +11.
    let howe = |from: &str, to: &str| ticks("15,45 1,2 * * *", "Australia/Lord_Howe", from, to);
    assert_eq!(
        howe("2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"),
        ["05 01:15:00 +11", "05 01:45:00 +11", "05 02:15:00 +1030", "05 02:45:00 +1030"]
    );
    assert_eq!(
        howe("2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"),
        ["04 01:15:00 +1030", "04 01:45:00 +1030", "04 02:30:00 +11", "04 02:45:00 +11"]
    );
    // In São Paulo, midnight of 4 November 2018 was 01:00.
    assert_eq!(
        ticks("0,30 0,1 * * *", "America/Sao_Paulo", "2018-11-04T02:00:00Z", "2018-11-05T02:00:00Z"),
        ["04 01:00:00 -02", "04 01:30:00 -02"]
    );
    // On 18 February 2018, the hour before midnight came twice: the 17th lasted until 23:59:59 -03.
    assert_eq!(
        ticks("0,30 23 * * *", "America/Sao_Paulo", "2018-02-17T03:00:00Z", "2018-02-18T12:00:00Z"),
        ["17 23:00:00 -02", "17 23:30:00 -02"]
    );
}

#[test]
fn all_hours_and_more_than_sixty_times_follow_the_clock() {
    for expression in ["0 0-23 * * *", "0 0-11,12-23 * * *", "0 * * * *"] {
        assert_eq!((autumn(expression).len(), spring(expression).len()), (25, 23), "{expression}");
    }
    // Sixty times are still fixed, and one more is not.
    assert_eq!((autumn("0-29 2,3 * * *").len(), spring("0-29 2,3 * * *").len()), (60, 30));
    assert_eq!((autumn("0-30 2,3 * * *").len(), spring("0-30 2,3 * * *").len()), (93, 31));
    assert_eq!((autumn("0-59 2 * * *").len(), spring("0-59 2 * * *").len()), (120, 0));
    assert_eq!((autumn("0-58 2 * * *").len(), spring("0-58 2 * * *").len()), (59, 1));
    assert_eq!((autumn("0-40/20 2 * * *").len(), spring("0-40/20 2 * * *").len()), (6, 0));
}

#[test]
fn a_year_of_a_list_has_each_of_its_times_on_each_day() {
    for (expression, a_day) in [("0,30 2 * * *", 2), ("30 1-3 * * *", 3), ("0 9-17 * * *", 9)] {
        let year = ticks(expression, PARIS, "2026-01-01T03:30:00Z", "2027-01-01T03:30:00Z");
        // In the gap, the two times of the first expression are one tick.
        let together = usize::from(expression == "0,30 2 * * *");
        assert_eq!(year.len(), 365 * a_day - together, "{expression}");
    }
}

#[test]
fn last_and_all_know_the_times_of_a_list() {
    let twice = Schedule::parse("0,30 2 * * *", BERLIN).unwrap();
    let due = |last: &str, now: &str, catch_up| twice.due(at(last), at(now), catch_up).ticks;
    let gap = at("2026-03-29T01:00:00Z");
    assert_eq!(due("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", CatchUp::All), [gap]);
    assert_eq!(due("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", CatchUp::Last), [gap]);
    // The newest tick of the repeated hour is in its first pass, and so it is from the second one.
    let second = at("2026-10-25T00:30:00Z");
    for now in ["2026-10-25T00:59:59Z", "2026-10-25T01:10:00Z", "2026-10-25T01:59:00Z", "2026-10-25T12:00:00Z"] {
        assert_eq!(due("2026-10-24T12:00:00Z", now, CatchUp::Last), [second], "{now}");
        assert_eq!(due("2026-10-24T12:00:00Z", now, CatchUp::All), [at("2026-10-25T00:00:00Z"), second], "{now}");
    }
}

// Nuuk and Ittoqqortoormiit go from 23:00 to midnight, so the end of the gap is on another day.
#[test]
fn a_time_in_a_gap_that_ends_at_midnight_runs_whatever_days_its_expression_names() {
    let spring = |expression: &str, zone: &str| ticks(expression, zone, "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
    for zone in ["America/Nuuk", "America/Scoresbysund"] {
        for expression in ["30 23 28 3 *", "30 23 * * SAT", "15,45 23 28 MAR *", "59 23 * 3 SAT#4"] {
            assert_eq!(spring(expression, zone), ["29 00:00:00 -01"], "{expression} in {zone}");
            let schedule = Schedule::parse(expression, zone).unwrap();
            let due = schedule.due(at("2026-03-28T12:00:00Z"), at("2026-03-29T12:00:00Z"), CatchUp::Last);
            assert_eq!(due.ticks, [at("2026-03-29T01:00:00Z")], "{expression} in {zone}");
        }
        assert_eq!(spring("0 0 29 3 *", zone), ["29 00:00:00 -01"]);
        assert_eq!(spring("30 23 * * *", zone), ["29 00:00:00 -01", "29 23:30:00 -01"]);
    }
    // Of the days in Cairo, one has no midnight.
    assert_eq!(
        ticks("0 0 24 4 *", "Africa/Cairo", "2026-04-20T00:00:00Z", "2026-04-28T00:00:00Z"),
        ["24 01:00:00 EEST"]
    );
}

// Samoa crossed the date line: after 29 December 2011 came 31 December. Kwajalein had no 21 August 1993.
#[test]
fn a_schedule_goes_on_after_a_day_that_its_zone_left_out() {
    let days = |expression: &str| ticks(expression, "Pacific/Apia", "2011-12-29T10:00:00Z", "2012-01-02T10:00:00Z");
    assert_eq!(days("0 12 * * *"), ["29 12:00:00 -10", "31 12:00:00 +14", "01 12:00:00 +14", "02 12:00:00 +14"]);
    assert_eq!(days("0 0,23 * * *").len(), 7);
    assert_eq!(days("7 0 0 * * *"), ["29 00:00:07 -10", "31 00:00:07 +14", "01 00:00:07 +14", "02 00:00:07 +14"]);
    let yearly = ticks("0 12 30 12 *", "Pacific/Apia", "2010-01-01T00:00:00Z", "2013-01-01T00:00:00Z");
    assert_eq!(yearly, ["30 12:00:00 -10", "30 12:00:00 +14"]);
    assert_eq!(
        ticks("30 6 * * *", "Pacific/Kwajalein", "1993-08-20T12:00:00Z", "1993-08-23T12:00:00Z"),
        ["20 06:30:00 -12", "22 06:30:00 +12", "23 06:30:00 +12"]
    );
    let noon = Schedule::parse("0 12 * * *", "Pacific/Apia").unwrap();
    let due = noon.due(at("2011-12-20T00:00:00Z"), at("2011-12-30T12:00:00Z"), CatchUp::Last);
    assert_eq!(due.ticks, [at("2011-12-29T22:00:00Z")], "the noon before the missing day is the newest one");
    let due = noon.due(at("2011-12-29T22:00:00Z"), at("2012-01-05T12:00:00Z"), CatchUp::All);
    assert_eq!(due.ticks.len(), 6);
}

fn due(expression: &str, last: &str, now: &str, catch_up: CatchUp) -> (Vec<String>, String) {
    let due = Schedule::parse(expression, "UTC").unwrap().due(at(last), at(now), catch_up);
    let text = |instant: &DateTime<Utc>| instant.format("%FT%TZ").to_string();
    (due.ticks.iter().map(text).collect(), text(&due.last_tick))
}

#[test]
fn a_tick_is_due_at_its_time_and_only_once() {
    for catch_up in [CatchUp::Skip, CatchUp::Last, CatchUp::All] {
        let tick = "2026-05-01T12:00:00Z";
        assert_eq!(due("0 0 * * * *", "2026-05-01T11:00:00Z", "2026-05-01T11:59:59Z", catch_up).0, [""; 0]);
        let (ticks, last) = due("0 0 * * * *", "2026-05-01T11:00:00Z", tick, catch_up);
        assert_eq!((ticks, &*last), (vec![tick.to_owned()], tick));
        assert_eq!(due("0 0 * * * *", tick, "2026-05-01T12:00:30Z", catch_up).0, [""; 0]);
    }
}

#[test]
fn after_an_outage_skip_runs_nothing_last_one_and_all_every_tick() {
    let outage = |catch_up| due("0 0 * * * *", "2026-05-01T09:00:00Z", "2026-05-01T12:30:00Z", catch_up).0;
    assert_eq!(outage(CatchUp::Skip), [""; 0]);
    assert_eq!(outage(CatchUp::Last), ["2026-05-01T12:00:00Z"]);
    assert_eq!(outage(CatchUp::All), ["2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z"]);
}

#[test]
fn skip_still_runs_a_tick_that_is_fresh_when_the_worker_comes_back() {
    let (ticks, _) = due("0 0 * * * *", "2026-05-01T09:00:00Z", "2026-05-01T12:00:40Z", CatchUp::Skip);
    assert_eq!(ticks, ["2026-05-01T12:00:00Z"]);
}

#[test]
fn all_goes_through_a_long_outage_in_bounded_steps_without_a_gap_or_a_repetition() {
    let schedule = Schedule::parse("0 * * * * *", "UTC").unwrap();
    let (start, now) = (at("2026-05-01T00:00:00Z"), at("2026-05-04T00:00:30Z"));
    let (mut last, mut seen) = (start, Vec::new());
    loop {
        let due = schedule.due(last, now, CatchUp::All);
        if due.ticks.is_empty() {
            break;
        }
        assert!(due.ticks.len() <= 1000);
        last = due.last_tick;
        seen.extend(due.ticks);
    }
    assert_eq!(seen.len(), 3 * 24 * 60);
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::minutes(1)));
}

#[test]
fn years_of_outage_are_processed_without_all_their_ticks() {
    for catch_up in [CatchUp::Skip, CatchUp::Last] {
        let (ticks, last) = due("* * * * * *", "1996-01-01T00:00:00Z", "2026-01-01T00:00:00Z", catch_up);
        assert_eq!(last, "2026-01-01T00:00:00Z");
        let expected = if catch_up == CatchUp::Last { 1..=2 } else { 1..=61 };
        assert!(expected.contains(&ticks.len()), "{catch_up}: {ticks:?}");
    }
}

#[test]
fn last_across_a_change_of_clocks_is_one_tick() {
    let nightly = Schedule::parse("0 30 2 * * *", PARIS).unwrap();
    // No worker ran from before the gap until the day after.
    let due = nightly.due(at("2026-03-28T01:30:00Z"), at("2026-03-29T18:00:00Z"), CatchUp::Last);
    assert_eq!(due.ticks, [at("2026-03-29T01:00:00Z")]);
    // The same for the repeated hour. The newest tick is in its first pass.
    let due = nightly.due(at("2026-10-24T00:30:00Z"), at("2026-10-25T18:00:00Z"), CatchUp::Last);
    assert_eq!(due.ticks, [at("2026-10-25T00:30:00Z")]);
}

#[test]
fn all_across_a_change_of_clocks_is_one_tick_per_day() {
    let nightly = Schedule::parse("0 30 2 * * *", PARIS).unwrap();
    let due = nightly.due(at("2026-03-27T12:00:00Z"), at("2026-03-30T12:00:00Z"), CatchUp::All);
    assert_eq!(due.ticks, [at("2026-03-28T01:30:00Z"), at("2026-03-29T01:00:00Z"), at("2026-03-30T00:30:00Z")]);
}
