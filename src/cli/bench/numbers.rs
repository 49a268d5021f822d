//! Numbers formatted for people.

/// Returns a whole number with thousands separators.
pub(super) fn number(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the milliseconds with as many decimals as matter at their size. From 10 s on, it returns seconds.
pub(super) fn milliseconds(value: f64) -> String {
    match value {
        ..0.1 => format!("{value:.2} ms"),
        ..10.0 => format!("{value:.1} ms"),
        ..10_000.0 => format!("{value:.0} ms"),
        _ => format!("{:.0} s", value / 1e3),
    }
}

/// Returns a share as a percentage.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0.0, 7.4, 999.6, 12_345.0, 1_234_567.0].map(number), ["0", "7", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn milliseconds_have_the_decimals_that_matter() {
        assert_eq!(
            [0.051, 0.72, 3.62, 47.2, 2_500.0, 61_000.0].map(milliseconds),
            ["0.05 ms", "0.7 ms", "3.6 ms", "47 ms", "2500 ms", "61 s"]
        );
    }
}
