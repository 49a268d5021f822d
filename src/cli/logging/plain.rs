//! Formats the fields of log lines for people, on one line and without colours. Each job has a span with five fields,
//! which are formatted before its handler starts. Because this runs for every job, numbers and plain strings are
//! written directly and not through `Debug`.

use std::fmt::{self, Debug};

use diesel_jobs_core::shell::is_hidden;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use crate::cli::output::printable;

/// Writes `name=value` pairs, separated by spaces.
pub(super) struct Plain;

impl<'w> FormatFields<'w> for Plain {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_first: true, written: Ok(()) };
        fields.record(&mut line);
        line.written
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    is_first: bool,
    written: fmt::Result,
}

impl Line<'_> {
    fn add(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        self.written = self.written.and_then(|()| {
            if !std::mem::take(&mut self.is_first) {
                self.writer.write_char(' ')?;
            }
            if field.name() != "message" {
                self.writer.write_str(field.name())?;
                self.writer.write_char('=')?;
            }
            value(&mut self.writer)
        });
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // It may contain text from elsewhere, such as the error of a handler. That must neither start a new log line
        // nor turn this one round.
        self.add(field, |writer| match format!("{value:?}") {
            text if text.contains(is_hidden) => writer.write_str(&printable(&text)),
            text => writer.write_str(&text),
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, |writer| write!(writer, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, |writer| write!(writer, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\';
        if !value.bytes().all(is_plain) || field.name() == "message" {
            return self.record_debug(field, &value);
        }
        self.add(field, |writer| {
            writer.write_char('"')?;
            writer.write_str(value)?;
            writer.write_char('"')
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'w> MakeWriter<'w> for Paper {
        type Writer = Self;

        fn make_writer(&'w self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn fields_stay_on_one_line_and_control_characters_are_escaped() {
        let paper = Paper::default();
        let logs = tracing_subscriber::fmt().without_time().with_target(false).fmt_fields(Plain);
        let logs = logs.with_ansi(false).with_writer(paper.clone()).finish();
        tracing::subscriber::with_default(logs, || {
            let span = tracing::info_span!("job", job.id = 7_i64, job.kind = "a \"b\"\n", job.queue = "default");
            let _entered = span.enter();
            tracing::info!(run_ms = 1.5, tries = 3_u64, "over\nthere {}", "\u{1b}[1m");
            for odd in ["a\u{2028}b", "a\u{2029}b", "a\u{202e}b", "a\u{2066}b", "a\u{85}b"] {
                tracing::info!(error = %odd, text = odd, debugged = ?odd, "odd {odd}");
            }
        });
        let line = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let wanted =
            r#" INFO job{job.id=7 job.kind="a \"b\"\n" job.queue="default"}: over\nthere \u{1b}[1m run_ms=1.5 tries=3"#;
        let spans = wanted.split_once("}: ").unwrap().0;
        let odd = ["2028", "2029", "202e", "2066", "85"].map(|code| {
            let odd = format!("a\\u{{{code}}}b");
            format!(r#"{spans}}}: odd {odd} error={odd} text="{odd}" debugged="{odd}""#)
        });
        assert_eq!(line, format!("{wanted}\n{}\n", odd.join("\n")));
    }
}
