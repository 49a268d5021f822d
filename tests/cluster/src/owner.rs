//! Who the server runs as. PostgreSQL refuses to run as root, so root lends it to somebody else.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        fs::{MetadataExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::run::{capture, succeeds};

#[derive(Debug)]
pub(crate) struct Owner {
    uid: u32,
    /// Set if it is not ourselves, but somebody whom we, as root, turn into.
    group: Option<u32>,
}

pub(crate) fn are_we_root() -> Result<bool> {
    Ok(our_uid()? == 0)
}

fn our_uid() -> Result<u32> {
    let answer = capture(Command::new("id").arg("-u"), "install coreutils")?;
    answer.trim().parse().context("`id -u` did not answer with a number")
}

impl Owner {
    /// Ourselves; or, if we are root, `postgres` or `nobody`.
    pub(crate) fn find() -> Result<Self> {
        let uid = our_uid()?;
        if uid != 0 {
            return Ok(Self { uid, group: None });
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot look up a user to run PostgreSQL as")?;
        let found = ["postgres", "nobody"].iter().find_map(|name| ids(&users, name));
        match found {
            Some((uid, gid)) => Ok(Self { uid, group: Some(gid) }),
            None => bail!(
                "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`\n  to fix: useradd --system postgres"
            ),
        }
    }

    /// A command that runs as this user, somewhere where it may be.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        // The machine's own settings must not reach into a private server; the locale is part of its results.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").current_dir(dir);
        if let Some(gid) = self.group {
            command.uid(self.uid).gid(gid);
        }
        command
    }

    /// Makes a file or directory theirs.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        if let Some(gid) = self.group {
            chown(path, Some(self.uid), Some(gid)).with_context(|| format!("cannot give {} away", path.display()))?;
        }
        Ok(())
    }

    pub(crate) fn owns(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == self.uid)
    }

    /// Whether they may pass through all the directories above and into this one.
    pub(crate) fn can_enter(&self, dir: &Path) -> bool {
        succeeds(self.command("sh", Path::new("/")).args(["-c", "cd -- \"$0\""]).arg(dir))
    }
}

/// The ids of a user, from the text of `/etc/passwd`.
fn ids(users: &str, name: &str) -> Option<(u32, u32)> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        found.then_some((uid, gid))
    })
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0:root:/:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104:admin:/var/lib:/bin/sh\n";
        assert_eq!(ids(users, "postgres"), Some((101, 104)));
        assert_eq!(ids(users, "nobody"), None);
    }
}
