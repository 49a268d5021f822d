//! Cron expressions and time zones, refused here by the same library and rules as by `jobs_core::Schedule::parse`, which
//! reads them when the worker starts; a test compares the two.

use chrono::DateTime;
use chrono_tz::{TZ_VARIANTS, Tz};
use croner::parser::{CronParser, Seconds};

use crate::names::nearest;

/// Whether the zone exists.
pub(crate) fn zone(timezone: &str) -> Result<Tz, String> {
    timezone.parse().map_err(|_| {
        let hint = match nearest(timezone, TZ_VARIANTS.iter().map(|zone| zone.name())) {
            Some(zone) => format!("did you mean {zone:?}?"),
            None => "write an IANA name such as \"Europe/Paris\" or \"UTC\"".to_owned(),
        };
        format!("unknown time zone {timezone:?}; {hint}")
    })
}

/// Whether the expression parses and ever fires in this zone.
pub(crate) fn check(expression: &str, zone: Tz) -> Result<(), String> {
    let cron = CronParser::builder().seconds(Seconds::Optional).build().parse(expression).map_err(|problem| {
        format!(
            "cron expression {expression:?}: {problem}\n\
             write `sec min hour day month weekday`, such as \"0 0 2 * * *\" for every night at two"
        )
    })?;
    match cron.find_next_occurrence(&DateTime::UNIX_EPOCH.with_timezone(&zone), false) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("cron expression {expression:?} never fires")),
    }
}
