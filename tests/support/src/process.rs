//! Real processes: they are started with a clean environment, awaited with a limit, and killed with the test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::LIMIT;

/// A running process. It is killed if the test ends first.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: String,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Process {
    /// Starts a worker's binary on a database, without the variables of the caller's environment that it would read.
    pub fn worker(binary: &str, url: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::worker_with(binary, url, args, &[])
    }

    /// The same, with these additional variables.
    pub fn worker_with(
        binary: &str,
        url: &str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("JOBS_") || text.starts_with("PG") || text == "RUST_LOG" {
                command.env_remove(&name);
            }
        }
        command.env("DATABASE_URL", url).envs(variables.iter().copied()).args(args);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().expect("it was asked for");
        let (sender, lines) = channel();
        // The thread ends when the process ends, or when the receiver is dropped.
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines, seen: String::new() }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error that contains this text.
    pub fn await_line(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}; there were:\n{}", self.seen));
            self.seen.push_str(&line);
            self.seen.push('\n');
            if line.contains(text) {
                return;
            }
        }
    }

    /// Sends a signal by its name: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(status.unwrap().success(), "kill -{name}");
    }

    /// Kills it (SIGKILL), and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, at most `limit`.
    pub fn ended(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            // It only guards against hanging.
            assert!(Instant::now() < deadline, "still running after {limit:?}; it said:\n{}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        };
        // The channel closes after this, because the process held the other end of standard error.
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        Ended { code: status.code().unwrap_or(-1), stderr: std::mem::take(&mut self.seen) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
