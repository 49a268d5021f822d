//! The shell in which a page's commands run.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::support::{Db, Scratch, until};

/// A directory in which `worker` is the fixture's worker on this database, and the user is ada.
pub(super) struct Shell<'a> {
    db: &'a Db,
    scratch: Scratch,
}

/// A command that runs until this value is dropped.
pub(super) struct Background<'a> {
    shell: &'a Shell<'a>,
    child: Child,
}

/// What a command printed, without the line that names the database.
fn printed(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("using ")).collect()
}

impl<'a> Shell<'a> {
    pub(super) fn new(db: &'a Db) -> Self {
        let scratch = Scratch::new();
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_fixture-worker"), bin.join("worker")).unwrap();
        Self { db, scratch }
    }

    fn command(&self, line: &str) -> Command {
        let bin = self.scratch.path().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        let is_read = |name: &str| name.starts_with("JOBS_") || name == "RUST_LOG";
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_read)) {
            command.env_remove(name);
        }
        command
            .args(["-c", &format!("{{ {line}\n}} 2>&1")])
            .current_dir(self.scratch.path())
            .envs([("PATH", path.as_str()), ("DATABASE_URL", &self.db.url), ("USER", "ada"), ("SUDO_USER", "")])
            .stdin(Stdio::null());
        command
    }

    /// Runs a command line. Returns what it printed.
    pub(super) fn run(&self, line: &str) -> String {
        printed(&String::from_utf8(self.command(line).output().unwrap().stdout).unwrap())
    }

    /// Starts a command line in a process group of its own. Its output goes to a file.
    pub(super) fn start(&self, line: &str) -> Background<'_> {
        let log = File::create(self.scratch.path().join("log")).unwrap();
        Background { shell: self, child: self.command(line).stdout(log).process_group(0).spawn().unwrap() }
    }
}

impl Background<'_> {
    /// Waits for a line that contains this text. Returns what was printed until then.
    pub(super) fn await_line(&self, text: &str) -> String {
        until(|| {
            let log = fs::read_to_string(self.shell.scratch.path().join("log")).unwrap();
            let end = log.rfind('\n').map_or(0, |end| end + 1);
            let is_there = log[..end].contains(text);
            if is_there { Ok(printed(&log[..end])) } else { Err(format!("{text:?} is missing:\n{log}")) }
        })
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}
