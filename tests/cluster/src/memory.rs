//! Test databases in memory, if the machine has room.
//!
//! A test creates a database of about 300 files and drops it. On ext4 these two take up to half of the tests' processor
//! time: the file system does not reuse the inode of a file that was deleted within the last minute, and each new file
//! is searched a place past all of these. So `template1`, and what is cloned from it, is in a tablespace in `/dev/shm`.
//! All else, such as the WAL, is on the disk.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use crate::{owner::Owner, run};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "jobs-databases-";
/// The file that names the directory of the server to which the databases belong.
const OF: &str = "of";
/// The room that the tests' databases need, with a reserve, in KiB.
const ROOM: u64 = 4 << 20;

/// Makes a directory for the databases of the server whose directory this is, and removes the last one. Returns `None`
/// if the machine has no room for it.
pub(crate) fn place(home: &Path, owner: &Owner) -> Result<Option<PathBuf>> {
    clear(home);
    if !has_room() {
        return Ok(None);
    }
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let around = Path::new(MEMORY).join(format!("{PREFIX}{nanos:x}"));
    let databases = around.join("databases");
    DirBuilder::new().mode(0o755).create(&around).with_context(|| format!("cannot make {}", around.display()))?;
    fs::write(around.join(OF), home.to_string_lossy().as_bytes())?;
    DirBuilder::new().mode(0o700).create(&databases)?;
    owner.give(&databases)?;
    Ok(Some(databases))
}

/// Whether the databases of this data directory are there, wherever they are. Memory is empty after a restart of the
/// machine.
pub(crate) fn is_there(data: &Path) -> bool {
    let Ok(links) = fs::read_dir(data.join("pg_tblspc")) else { return true };
    links.flatten().all(|link| link.path().exists())
}

/// The statements that let each new database be in this directory. The server must have no other users.
pub(crate) fn statements(databases: &Path) -> String {
    format!(
        "create tablespace memory location '{}'\nalter database template1 set tablespace memory\n",
        databases.display()
    )
}

/// Removes the databases of this server, and those of servers whose directory is gone.
fn clear(home: &Path) {
    let Ok(entries) = fs::read_dir(MEMORY) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(of) = fs::read_to_string(path.join(OF)).map(PathBuf::from)
            && (of == home || !of.exists())
        {
            // Another user's directory stays.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn has_room() -> bool {
    let mut df = Command::new("df");
    let free =
        run::capture_quietly(df.args(["-P", "-k", MEMORY]), "install coreutils").ok().as_deref().and_then(free_in_df);
    let available = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available_memory);
    free.is_some_and(|free| free >= ROOM) && available.is_some_and(|available| available >= ROOM)
}

/// Returns the available KiB from the output of `df -P -k`.
fn free_in_df(output: &str) -> Option<u64> {
    output.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

/// Returns the available KiB from the text of `/proc/meminfo`.
fn available_memory(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read() {
        let df =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 24683656 1092 24682564 1% /dev/shm\n";
        assert_eq!(free_in_df(df), Some(24_682_564));
        assert_eq!(available_memory("MemFree:  1 kB\nMemAvailable:   22655244 kB\n"), Some(22_655_244));
        assert_eq!((free_in_df(""), available_memory("")), (None, None));
    }

    #[test]
    fn databases_whose_memory_is_gone_are_not_there() {
        let data = std::env::temp_dir().join(format!("jobs-memory-{}", std::process::id()));
        assert!(is_there(&data), "a data directory without tablespaces");
        let links = data.join("pg_tblspc");
        fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink("/", links.join("1")).unwrap();
        assert!(is_there(&data));
        std::os::unix::fs::symlink(data.join("gone"), links.join("2")).unwrap();
        assert!(!is_there(&data));
        fs::remove_dir_all(data).unwrap();
    }
}
