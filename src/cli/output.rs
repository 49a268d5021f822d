//! The output of commands: tables for people, JSON for programs.

use std::io::{self, Write as _};

use chrono::{DateTime, SecondsFormat, Utc};
use diesel_jobs_core::Depth;
use diesel_jobs_core::shell::is_hidden;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::standard_error::StandardError;

/// Prints one answer: `value` as one line of JSON, or the text of `human`. A closed pipe (`| head`) is not an error.
pub(super) fn print(json: bool, value: &impl Serialize, human: impl FnOnce() -> String) -> io::Result<()> {
    let text = if json {
        let mut text = as_json(value)?;
        text.push('\n');
        text
    } else {
        human()
    };
    print_text(&text)
}

/// Prints the text unchanged. A closed pipe is not an error.
pub(super) fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints one line to standard error. If that fails, the error is ignored, because there is no other place to report
/// it.
pub(super) fn complain(text: &str) {
    let _ = StandardError.write_all(format!("{text}\n").as_bytes());
}

/// How a column is aligned.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Right,
}

/// The widest cell of a table, in columns of a terminal.
const WIDEST: usize = 200;

/// Aligned rows under a row of headers.
pub(super) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(super) fn new(columns: &[(&str, Align)]) -> Self {
        let (headers, align) = columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).unzip();
        Self { align, rows: vec![headers] }
    }

    /// Adds a row with as many cells as there are columns.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A kind or a queue may have any length if plain SQL inserted it.
        self.rows.push(cells.into_iter().map(|cell| start_of(&printable(&cell), WIDEST)).collect());
    }

    /// Returns the text. Each line ends with a newline.
    pub(super) fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, align), width) in row.iter().zip(&self.align).zip(&widths) {
                // Formatting would pad by the number of characters, and some are two columns wide.
                let padding = " ".repeat(width.saturating_sub(width_of(cell)));
                let parts = match align {
                    Align::Left => [cell, &padding, "  "],
                    Align::Right => [&padding, cell, "  "],
                };
                line.extend(parts);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// How many columns of a terminal a text takes. A Chinese character takes two, and an accent of its own none.
pub(super) fn width_of(text: &str) -> usize {
    text.width()
}

/// The beginning of a text, at most this many columns of it.
pub(super) fn start_of(text: &str, most: usize) -> String {
    if width_of(text) <= most {
        return text.to_owned();
    }
    let mut width = 0;
    let fits = |c: &char| {
        width += c.width().unwrap_or(0);
        width <= most.saturating_sub(2)
    };
    text.chars().take_while(fits).chain("..".chars()).collect()
}

/// Returns the time in UTC, to the second.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replacen('T', " ", 1)
}

/// Returns the number and its noun, in the plural unless the number is 1.
pub(super) fn count(number: i64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a number that may be an estimate, and its noun.
pub(super) fn depth(depth: Depth, noun: &str) -> String {
    if depth.is_exact { count(depth.jobs, noun) } else { format!("{depth} {noun}s") }
}

/// Escapes control characters, and those that change the direction of writing, break the line or cannot be seen. So the
/// text stays on one line and in its order, and cannot move the cursor. Kinds, queues and messages may come from plain
/// SQL.
pub(super) fn printable(text: &str) -> String {
    let escaped = |c: char| if is_hidden(c) { c.escape_default().collect() } else { vec![c] };
    text.chars().flat_map(escaped).collect()
}

/// JSON on one line, in which such characters are escaped: JSON itself escapes only the first thirty-two.
pub(super) fn as_json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    if !text.contains(is_hidden) {
        return Ok(text);
    }
    // In strings, each of them has at most four digits. Stored JSON may have line breaks between its parts.
    let escaped = |c: char| match c {
        '\n' | '\r' | '\t' => " ".to_owned(),
        c if is_hidden(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    Ok(text.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_any_length_is_cut() {
        let mut table = Table::new(&[("KIND", Align::Left)]);
        table.row(["k".repeat(70_000)]);
        assert_eq!(table.render(), format!("KIND\n{}..\n", "k".repeat(198)));
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_space() {
        let mut table = Table::new(&[("ID", Align::Right), ("KIND", Align::Left)]);
        table.row(["7".to_owned(), "größer".to_owned()]);
        table.row(["1234".to_owned(), "x".to_owned()]);
        assert_eq!(table.render(), "  ID  KIND\n   7  größer\n1234  x\n");
        let mut table = Table::new(&[("KIND", Align::Left), ("QUEUE", Align::Right), ("N", Align::Left)]);
        table.row(["行列".to_owned(), "日本語".to_owned(), "1".to_owned()]);
        table.row(["abcd".to_owned(), "x".to_owned(), "2".to_owned()]);
        assert_eq!(table.render(), "KIND   QUEUE  N\n行列  日本語  1\nabcd       x  2\n");
        assert_eq!(
            (start_of("日本語", 6), start_of("日本語", 5), start_of("日本語", 4)),
            ("日本語".to_owned(), "日..".to_owned(), "日..".to_owned())
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for c in ['\u{7f}', '\u{85}', '\u{9b}', '\u{61c}', '\u{200b}', '\u{202e}', '\u{2028}', '\u{2066}', '\u{feff}'] {
            let text = format!("a{c}b\n\"é");
            assert!(!printable(&text).contains(c), "{c:?}");
            let json = as_json(&text).unwrap();
            assert!(!json.contains(c), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
        let stored = serde_json::value::RawValue::from_string("{\n\t\"a\": \"\u{9b}\"\r\n}".to_owned()).unwrap();
        assert_eq!(as_json(&stored).unwrap(), "{  \"a\": \"\\u009b\"  }");
        assert_eq!(as_json(&"größer 👩\u{200d}💻").unwrap(), "\"größer 👩\u{200d}💻\"");
    }

    #[test]
    fn times_are_utc_to_the_second() {
        let at = DateTime::parse_from_rfc3339("2026-01-02T03:04:05.678+01:00").unwrap().to_utc();
        assert_eq!(time(at), "2026-01-02 02:04:05Z");
    }
}
