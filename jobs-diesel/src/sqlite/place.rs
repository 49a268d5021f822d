//! Whether the file that was opened is still the one of its name. A file that was deleted, or replaced as by a restored backup, lives
//! on for those who have it open: a worker would go on in it without a word, while everybody else enqueues into the new one.

use std::fs;
use std::path::{self, Path, PathBuf};

use diesel_jobs_core::StorageError;

/// Where a file is looked for, whatever the working directory is by then.
pub(super) struct Place(PathBuf);

/// Which file was there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    device: u64,
    number: u64,
}

impl Place {
    pub(super) fn of(file: &str) -> Self {
        Self(path::absolute(file).unwrap_or_else(|_| Path::new(file).to_owned()))
    }

    /// The file that is there now. It takes a microsecond.
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

    /// Elsewhere a file that is open can be neither deleted nor replaced.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self { device: 0, number: 0 }
    }
}

/// Nothing is created in its place: the jobs are not in there.
pub(super) fn gone(file: &str) -> StorageError {
    StorageError::Unavailable(
        format!("the SQLite file {file} was deleted or moved away; put it back, or stop this process and run `worker migrate`")
            .into(),
    )
}
