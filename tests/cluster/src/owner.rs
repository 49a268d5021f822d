//! The user of the server. PostgreSQL refuses to run as root, so root runs it as another user.

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
    /// The group, if the user is another one, to which this process, as root, changes.
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
    /// Returns the current user. If that is root, returns `postgres` or `nobody`.
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

    /// Returns a command that runs as this user, in a directory that the user can enter.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        // The machine's own settings must not affect a private server. The locale affects its results.
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

    /// Makes this user the owner of a file or directory.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        if let Some(gid) = self.group {
            chown(path, Some(self.uid), Some(gid)).with_context(|| format!("cannot give {} away", path.display()))?;
        }
        Ok(())
    }

    pub(crate) fn owns(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == self.uid)
    }

    /// Whether this user can enter this directory and all directories above it.
    pub(crate) fn can_enter(&self, dir: &Path) -> bool {
        succeeds(self.command("sh", Path::new("/")).args(["-c", "cd -- \"$0\""]).arg(dir))
    }
}

/// Returns the ids of a user from the text of `/etc/passwd`.
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
