//! Golden files: stored arguments of each version of a kind, kept beside the source code. A test decodes them, so it
//! fails when a change of the arguments would make stored jobs undecodable.

use std::fmt::Debug;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::handler::{Registered, Registration};
use crate::testing::TestContext;

/// Compares a job with the golden files of its kind below `root`, and writes the file of the current version if it is
/// missing. On a machine with the environment variable `CI` it writes nothing.
///
/// # Errors
///
/// A file is missing, cannot be read or written, cannot be decoded, or holds another job.
pub fn check_golden<J: Registered + PartialEq + Debug>(root: &Path, job: &J) -> Result<(), String> {
    let registration = J::REGISTRATION;
    for &kind in registration.earlier {
        let path = path(root, &registration, kind);
        let stored = read(&path)?.ok_or_else(|| {
            format!(
                "{} is missing. It holds arguments of an earlier version as they are stored, and this program takes them too. Commit the \
                 file that this test wrote before the version was raised, or write one with the `args` of a stored job",
                path.display()
            )
        })?;
        decode::<J>(&path, kind, stored)?;
    }
    let path = path(root, &registration, J::KIND);
    let Some(stored) = read(&path)? else { return write(&path, job) };
    let decoded = decode::<J>(&path, J::KIND, stored)?;
    if decoded == *job {
        return Ok(());
    }
    Err(format!(
        "{} decodes to another job than the test names. If you changed the arguments, stored jobs mean something else now: raise `version` and \
         write `upgrade`. If only the test changed, remove the file and run the test again.\n  stored: {decoded:?}\n    test: {job:?}",
        path.display()
    ))
}

/// Returns the file of a version: `jobs/golden/<kind>.v<version>.json`. Characters that a file system may not take are
/// replaced by `%` and their number.
fn path(root: &Path, registration: &Registration, kind: &str) -> PathBuf {
    let current = format!(".v{}", registration.version);
    let first = match registration.version {
        1 => registration.kind,
        _ => registration.kind.strip_suffix(&current).unwrap_or(registration.kind),
    };
    let mut name = String::new();
    for byte in kind.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    let version = if kind == first { ".v1" } else { "" };
    root.join("jobs/golden").join(name + version + ".json")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::read(path) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

fn decode<J: Registered>(path: &Path, kind: &str, stored: Vec<u8>) -> Result<J, String> {
    J::decode(&TestContext::new(kind).args(stored).build()).map_err(|error| {
        format!(
            "{}: stored jobs can no longer be decoded: {error}. Take the change back, or raise `version` and write `upgrade`",
            path.display()
        )
    })
}

fn write<J: Registered>(path: &Path, job: &J) -> Result<(), String> {
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return Err(format!(
            "{} is missing. Run this test once without the environment variable CI: it writes the file. Then commit it",
            path.display()
        ));
    }
    let written = serde_json::to_string_pretty(job).map_err(io::Error::other).and_then(|mut text| {
        text.push('\n');
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, text)
    });
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
