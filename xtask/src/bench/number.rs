//! Numbers formatted for people.

/// Returns the number with thousands separators and as few decimals as it needs.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && digit.is_ascii_digit() && (whole.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let places = places.trim_end_matches('0');
    if places.is_empty() { grouped } else { format!("{grouped}.{places}") }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn thousands_stand_apart_and_zeros_are_dropped() {
        let figures = [0.0, 0.5, 1.234, 12.345, 100.4, 1000.0, 1_234_567.8, -123_456.0];
        assert_eq!(figures.map(number), ["0", "0.5", "1.23", "12.3", "100", "1,000", "1,234,568", "-123,456"]);
    }
}
