//! Durations as people write them: `"30s"`, `"1h 30m"`.

use std::time::Duration;

/// A hundred years: longer is a slip, and would not fit a database's timestamps.
const MAX: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// Reads a duration; the error says what is wrong and what a right one looks like.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a duration; write whole numbers with units, such as \"500ms\", \"30s\", \"1h 30m\" or \"7d\""
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 3600 * 1000,
            "d" => 24 * 3600 * 1000,
            _ => return Err(wrong()),
        };
        // Digits alone can still be no number, or none of this size.
        let number: u64 = match number.parse() {
            Ok(number) => number,
            Err(_) if number.is_empty() => return Err(wrong()),
            Err(_) => u64::MAX,
        };
        total = total.saturating_add(Duration::from_millis(number.saturating_mul(milliseconds)));
        rest = after.trim_start();
    }
    if total > MAX {
        return Err(format!("{text:?} is longer than a hundred years"));
    }
    Ok(total)
}
