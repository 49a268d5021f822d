//! Where the files of a server are: in its own directory, or in a temporary one if its user cannot use that.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use crate::owner::Owner;

/// The beginning of the names of temporary directories, and the file in them that names the server's own directory.
const ELSEWHERE: &str = "jobs-pg-";
const OF: &str = "of";

/// Returns a directory that the server's user can enter: this one, or a temporary one that is noted in it.
pub fn place(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    home(dir, &Owner::find()?)
}

/// Returns `dir`, or a temporary directory in two cases: the server's user cannot enter `dir` (a private home
/// directory), or its path is too long for a socket's name. The temporary directory is noted in `dir`.
pub(crate) fn home(dir: &Path, owner: &Owner) -> Result<PathBuf> {
    const LONGEST: usize = 100 - "/.s.PGSQL.65535.lock".len();
    let note = dir.join("elsewhere");
    if let Ok(noted) = fs::read_to_string(&note) {
        let noted = PathBuf::from(noted);
        // Every user can create directories there. So one that the server's user does not own is not used.
        if noted.is_dir() && owner.owns(&noted) {
            return Ok(noted);
        }
    }
    if dir.as_os_str().len() <= LONGEST && owner.can_enter(dir) {
        if !dir.join("data").exists() {
            owner.give(dir)?;
        }
        return Ok(dir.to_path_buf());
    }
    clear(owner);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let fresh = std::env::temp_dir().join(format!("{ELSEWHERE}{nanos:x}"));
    DirBuilder::new().mode(0o755).create(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    fs::write(fresh.join(OF), std::path::absolute(dir)?.to_string_lossy().as_bytes())?;
    owner.give(&fresh)?;
    fs::write(&note, fresh.to_string_lossy().as_bytes())?;
    Ok(fresh)
}

/// Removes the temporary directories of servers whose own directory is gone.
fn clear(owner: &Owner) {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(ELSEWHERE))
            && owner.owns(&path)
            && let Ok(of) = fs::read_to_string(path.join(OF))
            && !Path::new(&of).exists()
        {
            // One that cannot be removed is in nobody's way.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temporary_directory_of_a_removed_server_is_removed() {
        let [first, second] = ["first", "second"]
            .map(|name| std::env::temp_dir().join(format!("{name}-{}{:0>90}", std::process::id(), "")));
        let elsewhere = place(&first).unwrap();
        assert!(elsewhere.file_name().unwrap().to_string_lossy().starts_with(ELSEWHERE), "{elsewhere:?}");
        assert_eq!(place(&first).unwrap(), elsewhere, "it is noted in the server's directory");

        let others = place(&second).unwrap();
        assert!(elsewhere.is_dir(), "its server's directory exists");
        fs::remove_dir_all(first).unwrap();
        fs::remove_dir_all(&second).unwrap();
        clear(&Owner::find().unwrap());
        assert!(!elsewhere.exists() && !others.exists());
    }
}
