//! Golden files: stored arguments of each version of a kind, kept beside the source code. A test decodes them, so it
//! fails when a change of the arguments would make stored jobs undecodable.

use std::fmt::Debug;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::finite::refuse_infinite;
use crate::handler::{Registered, Registration};
use crate::testing::TestContext;

/// Compares a job with the golden files of its kind below `root`, and writes the file of the current version if it is
/// missing. On a machine with the environment variable `CI` it writes nothing.
///
/// # Errors
///
/// A file is missing, cannot be read or written, cannot be decoded, or holds another job.
pub fn check_golden<J: Registered + PartialEq + Debug>(root: &Path, job: &J) -> Result<(), String> {
    let Registration { earlier, aliases, version, .. } = J::REGISTRATION;
    let oldest = version.saturating_sub(u16::try_from(earlier.len()).unwrap_or(u16::MAX)).max(1);
    for (place, (&kind, version)) in earlier.iter().zip(oldest..).enumerate() {
        let own = path(root, kind, version);
        let mut found = decode_if_there::<J>(&own, kind)?.is_some();
        // Its file was written when the job had its earlier name.
        for &alias in aliases.iter().filter_map(|kinds| kinds.get(place)) {
            found |= decode_if_there::<J>(&path(root, alias, version), alias)?.is_some();
        }
        if !found {
            return Err(format!(
                "{} is missing. It holds arguments of an earlier version as they are stored, and this program takes them too. Commit the \
                 file that this test wrote before the version was raised, or write one with the `args` of a stored job",
                own.display()
            ));
        }
    }
    for &alias in aliases.iter().filter_map(|kinds| kinds.last()) {
        decode_if_there::<J>(&path(root, alias, version), alias)?;
    }
    let path = path(root, J::KIND, version);
    let Some(decoded) = decode_if_there::<J>(&path, J::KIND)? else { return write(&path, job) };
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
fn path(root: &Path, kind: &str, version: u16) -> PathBuf {
    let mut name = String::new();
    for byte in kind.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    // The stored kind contains every version but the first.
    let version = if version == 1 { ".v1" } else { "" };
    root.join("jobs/golden").join(name + version + ".json")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::read(path) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// Decodes the file. `None` if it does not exist.
fn decode_if_there<J: Registered>(path: &Path, kind: &str) -> Result<Option<J>, String> {
    read(path)?.map(|stored| decode::<J>(path, kind, stored)).transpose()
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
    let written = refuse_infinite(job).and_then(|()| serde_json::to_string_pretty(job));
    let written = written.map_err(io::Error::other).and_then(|mut text| {
        text.push('\n');
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, text)
    });
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
