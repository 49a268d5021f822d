//! The lines of a file, or of standard input. They are read twice: once to check all of them, and once to import them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use diesel_jobs_core::MAX_ARGS_BYTES;

/// The longest line, in bytes: the largest arguments, each byte as an escape of six letters, and the other fields.
const LONGEST: usize = 6 * MAX_ARGS_BYTES + 64 * 1024;

/// Where the lines come from.
pub(super) enum Source {
    File(PathBuf),
    /// Standard input cannot be read twice, so it is kept.
    Kept(Vec<u8>),
}

impl Source {
    /// Opens a file. `-` is standard input.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if path != Path::new("-") {
            return Ok(Self::File(path.to_owned()));
        }
        let mut kept = Vec::new();
        io::stdin().lock().read_to_end(&mut kept)?;
        Ok(Self::Kept(kept))
    }

    /// The lines, from the first one.
    pub(super) fn lines(&self) -> io::Result<Lines<'_>> {
        let reader: Box<dyn BufRead + '_> = match self {
            Self::File(path) => Box::new(BufReader::new(File::open(path)?)),
            Self::Kept(kept) => Box::new(kept.as_slice()),
        };
        let mut lines = Lines { reader, number: 0 };
        lines.skip_mark()?;
        Ok(lines)
    }
}

/// One line.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// `None`: it is too long to be the line of a job.
    pub(super) text: Option<Vec<u8>>,
}

/// Reads line by line. Empty lines are left out.
pub(super) struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    number: u64,
}

impl Iterator for Lines<'_> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut text = Vec::new();
            let read = (&mut self.reader).take(LONGEST as u64 + 1).read_until(b'\n', &mut text);
            self.number += 1;
            match read {
                Err(problem) => return Some(Err(problem)),
                Ok(0) => return None,
                Ok(_) if text.iter().all(u8::is_ascii_whitespace) && text.ends_with(b"\n") => {}
                Ok(_) if text.iter().all(u8::is_ascii_whitespace) && text.len() <= LONGEST => {}
                Ok(length) if length > LONGEST => {
                    if let Err(problem) = self.skip_line() {
                        return Some(Err(problem));
                    }
                    return Some(Ok(Line { number: self.number, text: None }));
                }
                Ok(_) => return Some(Ok(Line { number: self.number, text: Some(text) })),
            }
        }
    }
}

/// The byte order mark that some editors and shells write before a text.
const MARK: &[u8] = "\u{feff}".as_bytes();

impl Lines<'_> {
    fn skip_mark(&mut self) -> io::Result<()> {
        if self.reader.fill_buf()?.starts_with(MARK) {
            self.reader.consume(MARK.len());
        }
        Ok(())
    }

    /// Reads to the end of a line, and keeps nothing of it.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let (used, is_end) = match self.reader.fill_buf()? {
                [] => return Ok(()),
                part => match part.iter().position(|byte| *byte == b'\n') {
                    Some(end) => (end + 1, true),
                    None => (part.len(), false),
                },
            };
            self.reader.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let first = |text: &str| {
            let source = Source::Kept(text.as_bytes().to_vec());
            source.lines().unwrap().next().map(|line| String::from_utf8(line.unwrap().text.unwrap()).unwrap())
        };
        assert_eq!(first("\u{feff}{}\n"), Some("{}\n".to_owned()));
        assert_eq!(first("\u{feff}\n{}"), Some("{}".to_owned()));
        assert_eq!(first("\u{feff}"), None);
        assert_eq!(first("\u{feff}\u{feff}{}"), Some("\u{feff}{}".to_owned()), "only one is a mark");
    }

    #[test]
    fn lines_have_their_numbers_and_a_long_one_is_not_kept() {
        let long = "x".repeat(3 * LONGEST);
        let source = Source::Kept(format!("one\n\n  \r\nfour\n{long}\nsix").into_bytes());
        let lines: Vec<Line> = source.lines().unwrap().map(Result::unwrap).collect();
        let short: Vec<(u64, Option<&[u8]>)> = lines.iter().map(|line| (line.number, line.text.as_deref())).collect();
        assert_eq!(short, [(1, Some(&b"one\n"[..])), (4, Some(b"four\n")), (5, None), (6, Some(b"six"))]);
    }
}
