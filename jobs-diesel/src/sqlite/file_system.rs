//! Where the file is. SQLite's locks, and the memory that its write-ahead log shares between processes, work only on a
//! file system of this machine. Elsewhere two processes may write at once and destroy the file.

use std::fs;
use std::path::{Path, PathBuf};

/// The kinds of file systems that keep their files on this machine, as Linux names them. Those of other machines cannot
/// be listed: everybody may write one.
const LOCAL: [&str; 28] = [
    "aufs",
    "bcachefs",
    "btrfs",
    "ecryptfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fuse.fuse-overlayfs",
    "fuseblk",
    "hfs",
    "hfsplus",
    "jfs",
    "msdos",
    "nilfs2",
    "ntfs",
    "ntfs3",
    "overlay",
    "ramfs",
    "reiserfs",
    "rootfs",
    "tmpfs",
    "ubifs",
    "vfat",
    "xfs",
    "zfs",
];

/// The kind of the file's file system, if it is none of [`LOCAL`]. `None` on systems without Linux's table of mounts.
pub(crate) fn foreign(file: &str) -> Option<String> {
    foreign_in(&fs::read_to_string("/proc/self/mounts").ok()?, &real(file)?)
}

/// The file's path without symbolic links. The file itself may not exist yet.
fn real(file: &str) -> Option<PathBuf> {
    let path = std::path::absolute(file).ok()?;
    if let Ok(real) = fs::canonicalize(&path) {
        return Some(real);
    }
    Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?))
}

fn foreign_in(mounts: &str, file: &Path) -> Option<String> {
    let holds = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (unescaped(fields.next()?), fields.next()?);
        file.starts_with(&place).then_some((place.len(), kind))
    });
    // Of two at the same place, the later one hides the earlier one.
    let (_, kind) = holds.max_by_key(|(length, _)| *length)?;
    (!LOCAL.contains(&kind)).then(|| kind.to_owned())
}

/// A path as the table writes it: spaces, tabs, line feeds and backslashes are octal numbers, such as `\040`.
fn unescaped(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(path.to_owned(), |path, (written, meant)| path.replace(written, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n/dev/sdb /data/local xfs rw 0 0\n\
        share /mnt/c 9p rw 0 0\nmount0 /workspace virtiofs rw 0 0\nbucket /srv/my\\040files fuse.s3fs rw 0 0\n\
        overlay /var/lib overlay rw 0 0\nfs:/lustre /var/lib lustre rw 0 0\n/dev/sdc /disk ext4 rw 0 0\nnas:/d /disk/far ceph rw 0 0\n";

    fn foreign(file: &str) -> Option<String> {
        foreign_in(MOUNTS, Path::new(file))
    }

    #[test]
    fn the_innermost_mount_decides() {
        assert_eq!(foreign("/data/jobs.db").as_deref(), Some("nfs4"));
        assert_eq!(foreign("/data/local/jobs.db"), None);
        assert_eq!(foreign("/database/jobs.db"), None, "a path that only begins with the same letters");
        assert_eq!(foreign("/disk/jobs.db"), None);
        assert_eq!(foreign("/disk/far/jobs.db").as_deref(), Some("ceph"));
        assert_eq!(foreign("/var/lib/jobs.db").as_deref(), Some("lustre"), "the later mount hides the earlier one");
    }

    #[test]
    fn what_is_not_known_to_be_local_is_foreign() {
        assert_eq!(foreign("/mnt/c/jobs.db").as_deref(), Some("9p"));
        assert_eq!(foreign("/workspace/jobs.db").as_deref(), Some("virtiofs"));
        assert_eq!(foreign("/srv/my files/jobs.db").as_deref(), Some("fuse.s3fs"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_also_if_the_file_does_not_exist_yet() {
        let dir = std::env::temp_dir().join(format!("jobs-file-system-{}", std::process::id()));
        fs::create_dir_all(dir.join("there")).unwrap();
        std::os::unix::fs::symlink(dir.join("there"), dir.join("here")).unwrap();
        let real_path = real(dir.join("here/jobs.db").to_str().unwrap()).unwrap();
        assert_eq!(real_path, fs::canonicalize(dir.join("there")).unwrap().join("jobs.db"));
        fs::remove_dir_all(dir).unwrap();
    }
}
