//! Intervals of schedules: `every = "90m"`. The macros use this file too (`jobs-macros/src/every.rs` links here), so
//! that the compiler and the worker accept the same and report the same message.

/// How an interval is written where a cron expression is stored: `@every 90m`.
pub(crate) const SIGN: &str = "@every";

/// The longest interval, in seconds: 366 days.
const MOST: i64 = 366 * 86_400;

/// The units, the longest first, and how many seconds each has.
const UNITS: [(&str, i64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// The words for the units in a sentence.
const WORDS: [(&[&str], &str); 4] =
    [(&["second", "sec"], "s"), (&["minute", "min"], "m"), (&["hour", "hr"], "h"), (&["day"], "d")];

/// Returns what is stored for an interval: `@every 90m` for both `90m` and `1h 30m`.
pub(crate) fn stored(text: &str) -> Result<String, String> {
    let seconds = seconds(text)?;
    let (unit, factor) = UNITS.into_iter().find(|(_, factor)| seconds % factor == 0).unwrap_or(("s", 1));
    Ok(format!("{SIGN} {}{unit}", seconds / factor))
}

/// Parses an interval, in seconds: whole numbers with units.
pub(crate) fn seconds(text: &str) -> Result<i64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("an interval is missing; write one such as \"90m\"".to_owned());
    }
    if rest.starts_with('@') {
        let belongs = match rest.strip_prefix(SIGN).map(str::trim_start).filter(|interval| seconds(interval).is_ok()) {
            Some(interval) => format!("is an interval as it is stored; write {interval:?}"),
            None => "is no interval such as \"90m\"; a cron expression belongs in `cron`".to_owned(),
        };
        return Err(format!("interval {text:?} {belongs}"));
    }
    if rest.starts_with('-') {
        return Err(format!("interval {text:?} is negative; the shortest is \"1s\""));
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let problem = match (digits, factor) {
            ("", _) => "is not an interval; write whole numbers with units, such as \"90m\" or \"1h 30m\"".to_owned(),
            (_, None) if unit.is_empty() && !after.is_empty() => {
                "is not in whole numbers with units, such as \"90m\" or \"1h 30m\"".to_owned()
            }
            (digits, None) if unit.is_empty() => {
                format!("has no unit; write \"{digits}s\", \"{digits}m\", \"{digits}h\" or \"{digits}d\"")
            }
            (_, None) => {
                format!("has the unit {unit:?}; the units are s, m, h and d, because an interval is at least a second")
            }
            (digits, Some(factor)) => {
                // The number may be too large for `i64`.
                let part = digits.parse().unwrap_or(i64::MAX).saturating_mul(factor);
                total = total.saturating_add(part);
                rest = after.trim_start();
                continue;
            }
        };
        return Err(format!("interval {text:?} {problem}"));
    }
    match total {
        0 => Err(format!("interval {text:?} is zero; the shortest is \"1s\"")),
        1..=MOST => Ok(total),
        _ => Err(format!("interval {text:?} is longer than 366 days; a cron expression can name a month or a year")),
    }
}

/// The interval that a text such as `90m`, `every 90 minutes` or `every hour` means. `None` for any other text.
pub(crate) fn meant(text: &str) -> Option<String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let rest = if words.first().is_some_and(|word| word == "every") { &words[1..] } else { &words[..] };
    let named = |number: &str, unit: &str| {
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        let (_, short) = WORDS.iter().find(|(names, _)| names.contains(&unit))?;
        Some(format!("{number}{short}"))
    };
    let meant = match rest {
        [unit] if rest.len() < words.len() => named("1", unit).unwrap_or_else(|| unit.clone()),
        [number, unit] => named(number, unit).unwrap_or_else(|| rest.join(" ")),
        _ => rest.join(" "),
    };
    seconds(&meant).is_ok().then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_stored_in_one_form() {
        for (text, expected) in [
            ("90m", "@every 90m"),
            ("1h 30m", "@every 90m"),
            (" 5400s ", "@every 90m"),
            ("1s", "@every 1s"),
            ("60m", "@every 1h"),
            ("7d", "@every 7d"),
            ("366d", "@every 366d"),
        ] {
            assert_eq!(stored(text).as_deref(), Ok(expected), "{text:?}");
            assert_eq!(expected.strip_prefix(SIGN).map(seconds), Some(seconds(text)));
        }
    }

    #[test]
    fn what_is_no_interval_is_refused_in_words() {
        for (text, part) in [
            ("", "is missing"),
            ("90", "has no unit; write \"90s\", \"90m\""),
            ("1h 30", "has no unit; write \"30s\""),
            ("0s", "is zero; the shortest is \"1s\""),
            ("-5m", "is negative"),
            ("500ms", "has the unit \"ms\""),
            ("1.5h", "whole numbers"),
            ("1 h", "whole numbers"),
            ("h", "is not an interval"),
            ("367d", "longer than 366 days"),
            ("99999999999999999999s", "longer than 366 days"),
            ("2 weeks", "whole numbers"),
            ("2w", "has the unit \"w\""),
            ("@hourly", "a cron expression belongs in `cron`"),
            ("@every", "is no interval such as \"90m\""),
            ("@every 1h 30m", "is an interval as it is stored; write \"1h 30m\""),
        ] {
            let problem = seconds(text).unwrap_err();
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }
}
