//! Checks whether the opened file is still the file with that name. A file that was deleted or replaced (for example by
//! a restored backup) still exists for the processes that have it open. Without this check a worker would silently go
//! on with the old file, while all others enqueue into the new one.

use std::fs;
use std::path::{self, Path, PathBuf};

use diesel_jobs_core::StorageError;

/// The absolute path of a file. So a later change of the working directory has no effect.
pub(super) struct Place(PathBuf);

/// Identifies a file, independent of its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    device: u64,
    number: u64,
}

impl Place {
    pub(super) fn of(file: &str) -> Self {
        Self(path::absolute(file).unwrap_or_else(|_| Path::new(file).to_owned()))
    }

    /// Returns the file that is there now, `None` if there is none. It takes a microsecond.
    pub(super) fn there(&self) -> Option<Opened> {
        fs::metadata(&self.0).ok().map(|file| Opened::of(&file))
    }
}

impl Opened {
    #[cfg(unix)]
    fn of(file: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: file.dev(), number: file.ino() }
    }

    /// On other systems an open file can be neither deleted nor replaced.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self { device: 0, number: 0 }
    }
}

/// The error for a file that was deleted or moved away. No new file is created at its place, because it would not
/// contain the jobs.
pub(super) fn gone(file: &str) -> StorageError {
    StorageError::Unavailable(
        format!("the SQLite file {file} was deleted or moved away; put it back, or stop this process and run `worker migrate`")
            .into(),
    )
}
