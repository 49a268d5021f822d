//! `.env`: variables in the nearest file of this name, in the working directory or above. The `diesel` command reads
//! the same file. A variable that is already set keeps its value.

use std::cell::Cell;
use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::url_source::without_mark;

/// The file `.env`. Do not print it: it may contain passwords.
pub struct EnvFile {
    path: PathBuf,
    text: String,
    variables: Vec<(String, String)>,
}

/// The file cannot be used. The error does not repeat a line of it, which may contain a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFileError {
    /// The file cannot be read.
    #[error("reading {}: {error}; correct or remove it", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A line of it is no assignment.
    #[error("{} line {line} is not understood; write NAME=value, and NAME='value' around spaces, quotes, `#` and `$`", path.display())]
    NotUnderstood {
        /// Its path.
        path: PathBuf,
        /// The number of the line.
        line: usize,
    },
}

impl EnvFile {
    /// Reads the file, if there is one.
    pub fn nearest() -> Result<Option<Self>, EnvFileError> {
        let Some(path) = find() else { return Ok(None) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return Err(EnvFileError::Unreadable { path, error }),
        };
        // A byte order mark, which some editors write. It is not part of a name.
        let text = without_mark(&text).to_owned();
        match variables(&text) {
            Ok(variables) => Ok(Some(Self { path, text, variables })),
            Err(line) => Err(EnvFileError::NotUnderstood { path, line }),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a variable in the file.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Sets the variables in the environment of the process. Call it before a second thread exists: no thread may read
    /// the environment while it changes.
    pub fn load(&self) -> Result<(), EnvFileError> {
        dotenvy::from_read(self.text.as_bytes())
            .map_err(|_| EnvFileError::NotUnderstood { path: self.path.clone(), line: 1 })
    }
}

fn find() -> Option<PathBuf> {
    // Fails if the working directory was removed. The process still runs then.
    let here = env::current_dir().ok()?;
    // A directory named `.env` is not meant.
    here.ancestors().map(|dir| dir.join(".env")).find(|path| path.is_file())
}

/// Returns the variables in the file, or the number of the first line that cannot be parsed.
fn variables(text: &str) -> Result<Vec<(String, String)>, usize> {
    let read = Cell::new(0);
    dotenvy::from_read_iter(Lines { rest: text.as_bytes(), read: &read })
        .map(|item| match item {
            Ok(variable) => Ok(variable),
            // A quoted value may have several lines. The error is reported at the first of them.
            Err(dotenvy::Error::LineParse(lines, _)) => {
                Err((read.get() + 1).saturating_sub(lines.lines().count().max(1)))
            }
            Err(_) => Err(read.get()),
        })
        .collect()
}

/// A reader that returns at most one line per read, and counts the lines.
struct Lines<'a> {
    rest: &'a [u8],
    read: &'a Cell<usize>,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let line = self.rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let size = line.len().min(buffer.len());
        let (now, rest) = self.rest.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.rest = rest;
        if size > 0 && size == line.len() {
            self.read.set(self.read.get() + 1);
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::variables;

    fn names(text: &str) -> Result<Vec<String>, usize> {
        Ok(variables(text)?.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn names_are_found_whatever_the_values_look_like() {
        let text = "# for me\n\nDATABASE_URL=postgres://me:pa#ss@localhost/app\nexport A='x y'\nB=\"two\nlines\"\nC=\n";
        assert_eq!(names(text), Ok(vec!["DATABASE_URL".into(), "A".into(), "B".into(), "C".into()]));
        assert_eq!(names(""), Ok(Vec::new()));
        assert_eq!(names(&format!("A={}\nB=1", "x".repeat(100_000))), Ok(vec!["A".into(), "B".into()]));
    }

    #[test]
    fn the_number_of_the_wrong_line_is_returned() {
        for (text, line) in [
            ("A=1\nno assignment\nB=2\n", 2),
            ("A=1\n\n# comment\nB=x y\n", 4),
            ("A=1\nA\n", 2),
            ("A=\"two\nlines\"\nB = 'open\nC=1\n\n", 3),
            ("A=\"two\nlines\" more\n", 1),
            ("1=2", 1),
        ] {
            assert_eq!(names(text), Err(line), "{text:?}");
        }
    }
}
