//! `.env`: sets environment variables from the nearest file of this name, in the working directory or above. The
//! `diesel` command reads the same file. A variable that is already set keeps its value.

use std::cell::Cell;
use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::exit::CliError;

/// The file `.env` that was read.
pub(super) struct EnvFile {
    /// Its path.
    pub(super) path: PathBuf,
    /// Whether the database's URL comes from this file.
    pub(super) names_database: bool,
}

/// Reads the file, if there is one, into the process's environment. Call it before a second thread exists: no thread
/// may read the environment while it changes.
pub(super) fn load(database_url: &str) -> Result<Option<EnvFile>, CliError> {
    let Some(path) = find() else { return Ok(None) };
    let text = fs::read_to_string(&path)
        .map_err(|error| CliError::usage(format!("reading {}: {error}; correct or remove it", path.display())))?;
    // A byte order mark, which some editors write. It is not part of a name.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let names = names(text).map_err(|line| not_understood(&path, line))?;
    let names_database = env::var_os(database_url).is_none() && names.iter().any(|name| name == database_url);
    dotenvy::from_read(text.as_bytes()).map_err(|_| not_understood(&path, 1))?;
    Ok(Some(EnvFile { path, names_database }))
}

fn find() -> Option<PathBuf> {
    // Fails if the working directory was removed. The process still runs then.
    let here = env::current_dir().ok()?;
    // A directory named `.env` is not meant.
    here.ancestors().map(|dir| dir.join(".env")).find(|path| path.is_file())
}

/// The error does not repeat the line: it may contain a password.
fn not_understood(path: &Path, line: usize) -> CliError {
    CliError::usage(format!(
        "{} line {line} is not understood; write NAME=value, and NAME='value' around spaces, quotes, `#` and `$`",
        path.display()
    ))
}

/// Returns the names of the variables in the file, or the number of the first line that cannot be parsed.
fn names(text: &str) -> Result<Vec<String>, usize> {
    let read = Cell::new(0);
    dotenvy::from_read_iter(Lines { rest: text.as_bytes(), read: &read })
        .map(|item| match item {
            Ok((name, _)) => Ok(name),
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
    use super::names;

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
