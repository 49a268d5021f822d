//! Fuzzes cron expressions and time zones as they are stored in the database, where any program may write them.

use std::panic::catch_unwind;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs::schedule::{CatchUp, Schedule};

/// The expression, a bar, and the time zone.
pub(super) const SEEDS: &[&str] = &[
    "0 0 * * *|UTC",
    "*/5 8-17 * * mon-fri|Europe/Berlin",
    "0 30 2 * * *|America/New_York",
    "0,30 1-3 * * *|Europe/Berlin",
    "@daily|Australia/Lord_Howe",
    "0 0 29 2 *|UTC",
    "0 0 0 31 12 * 2099|Asia/Kathmandu",
];
pub(super) const WORDS: &[&str] = &[
    "*",
    "/",
    "-",
    ",",
    "?",
    "L",
    "W",
    "#",
    "@hourly",
    "@reboot",
    "0",
    "59",
    "60",
    "99999999999",
    "-1",
    "1-0",
    "*/0",
    "mon",
    "feb",
    "|",
    " ",
    "  ",
    "UTC",
    "Europe/",
    "\u{0}",
    "\u{e9}",
    "2/3/4",
    "1970",
    "2100",
];

/// Returns what was wrong: a panic, or a tick that is not after the time before it.
pub(super) fn complaint(input: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(input).into_owned();
    let (expression, zone) = text.split_once('|').unwrap_or((&text, "UTC"));
    let read = catch_unwind(|| {
        let Ok(schedule) = Schedule::parse(expression, zone) else { return None };
        let mut instant: DateTime<Utc> = "2026-03-29T00:30:00Z".parse().ok()?;
        for _ in 0..20 {
            let Some(next) = schedule.next_after(instant) else { break };
            if next <= instant {
                return Some(format!("after {instant} comes {next}"));
            }
            instant = next;
        }
        let due = schedule.due(instant, instant + TimeDelta::hours(1), CatchUp::All);
        let early = due.ticks.iter().find(|tick| **tick <= instant);
        early.map(|tick| format!("at {tick} it is due after {instant}"))
    });
    match read {
        Ok(complaint) => complaint.map(|complaint| format!("{complaint}, by {expression:?} in {zone:?}")),
        Err(_) => Some(format!("panic at {expression:?} in {zone:?}")),
    }
}
