//! Prints results as a table for people.

use super::line::{Line, Sides};

/// Returns the lines of one measure as a table with aligned columns.
pub(crate) fn table(lines: &[Line]) -> String {
    let head = ["", "ours", "min..max", "raw", "min..max", "ratio", "unit", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(row));
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            let is_figure = (1..=5).contains(&column);
            if is_figure { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(line: &Line) -> Vec<String> {
    let side = |sides: &Option<Sides<f64>>, ours: bool| {
        sides.as_ref().and_then(|sides| if ours { sides.ours } else { sides.raw })
    };
    let range = |ours: bool| match (side(&line.min, ours), side(&line.max, ours)) {
        (Some(min), Some(max)) => format!("{}..{}", number(min), number(max)),
        _ => String::new(),
    };
    // Values that are not a number, such as series, are only in the JSON.
    let extra = line.extra.iter().filter_map(|(name, value)| Some(format!("{name} {}", number(value.as_f64()?))));
    vec![
        line.variant.clone(),
        line.ours.map(number).unwrap_or_default(),
        range(true),
        line.raw.map(number).unwrap_or_default(),
        range(false),
        line.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        line.unit.to_owned(),
        extra.collect::<Vec<_>>().join(", "),
    ]
}

/// Returns the figure with thousands separators and without needless decimals.
pub(crate) fn number(value: f64) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let places = places.trim_end_matches('0');
    if places.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{places}") }
}

#[cfg(test)]
mod tests {
    use super::super::{Run, Runs};
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let figures = [0.0, 0.5, 12.345, 999.9, 1000.0, 1_234_567.8, -1234.0];
        assert_eq!(figures.map(number), ["0", "0.5", "12.35", "1,000", "1,000", "1,234,568", "-1,234"]);
    }

    #[test]
    fn columns_line_up_and_missing_figures_stay_empty() {
        let both = Runs { ours: vec![Run::new(40_000.0)], raw: vec![Run::new(50_000.0)] };
        let one = Runs { ours: vec![Run::new(5.0).with("rss_mb", 7)], raw: Vec::new() };
        let lines = [Line::new("m", "a long name", "jobs/s").with(&both), Line::new("m", "b", "MB").with(&one)];
        let expected = "
               ours        min..max     raw        min..max  ratio  unit
a long name  40,000  40,000..40,000  50,000  50,000..50,000   0.80  jobs/s
b                 5            5..5                                 MB      rss_mb 7
";
        assert_eq!(table(&lines), expected.trim_start_matches('\n'));
    }
}
