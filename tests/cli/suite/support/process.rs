//! Worker processes: they are started with a clean environment, awaited with a limit, and ended with the test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{LIMIT, until};

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn succeeded(self) -> Self {
        self.exited(0)
    }

    pub(crate) fn exited(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Parses standard output, which must be one line of JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line of JSON: {self:#?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Asserts that standard error contains these parts.
    pub(crate) fn complained(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing: {self:#?}");
        }
        self
    }

    /// Asserts that this text was not printed.
    pub(crate) fn never_said(self, secret: &str) -> Self {
        assert!(!self.stdout.contains(secret) && !self.stderr.contains(secret), "{secret:?} was printed: {self:#?}");
        self
    }
}

/// A process that is not started yet.
pub(crate) struct Prepared(Command);

/// Prepares one of the fixture's binaries, without the variables of the caller's environment that it would read.
pub(crate) fn worker(binary: &str) -> Prepared {
    let path = match binary {
        "fixture-worker" => env!("CARGO_BIN_EXE_fixture-worker"),
        "ambiguous-worker" => env!("CARGO_BIN_EXE_ambiguous-worker"),
        "renamed-worker" => env!("CARGO_BIN_EXE_renamed-worker"),
        "bare-worker" => env!("CARGO_BIN_EXE_bare-worker"),
        "stateless-worker" => env!("CARGO_BIN_EXE_stateless-worker"),
        "forgetful-worker" => env!("CARGO_BIN_EXE_forgetful-worker"),
        "broken-worker" => env!("CARGO_BIN_EXE_broken-worker"),
        other => panic!("no such fixture: {other}"),
    };
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        let read = name.to_str().is_some_and(|name| {
            let is_ours = ["JOBS_", "PG"].iter().any(|beginning| name.starts_with(beginning));
            is_ours || ["DATABASE_URL", "DATABASE_URL_FILE", "RUST_LOG"].contains(&name)
        });
        if read {
            command.env_remove(name);
        }
    }
    Prepared(command)
}

impl Prepared {
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn in_dir(mut self, dir: &Path) -> Self {
        self.0.current_dir(dir);
        self
    }

    /// Starts it through `nohup`, which makes it ignore SIGHUP.
    pub(crate) fn under_nohup(self) -> Self {
        let mut command = Command::new("nohup");
        command.arg(self.0.get_program()).args(self.0.get_args());
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self(command)
    }

    /// Runs it with a standard output whose reading end is closed.
    pub(crate) fn run_into_closed_pipe(mut self) -> Run {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = self.0.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Run { code: output.status.code().unwrap_or(-1), stdout: String::new(), stderr }
    }

    pub(crate) fn start(mut self) -> Running {
        self.0.stdin(Stdio::null());
        self.spawn()
    }

    /// Starts it with an open standard input.
    pub(crate) fn start_with_input(mut self) -> Running {
        self.0.stdin(Stdio::piped());
        self.spawn()
    }

    /// Runs it with this text on standard input.
    pub(crate) fn run_with_input(self, text: &str) -> Run {
        let mut running = self.start_with_input();
        running.answer(text);
        running.ended()
    }

    /// Starts it with a standard error that is not read until the result is.
    pub(crate) fn start_unread(mut self) -> (Running, PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        let child = self.0.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
        let (_, lines) = channel();
        let printed = Arc::<Mutex<String>>::default();
        (Running { child, lines, seen: String::new(), printed, reader: None }, reader)
    }

    fn spawn(mut self) -> Running {
        let mut child = self.0.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            // The channel is closed when the process or the test ends.
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let (mut stdout, printed) = (BufReader::new(child.stdout.take().unwrap()), Arc::<Mutex<String>>::default());
        let text = printed.clone();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line)? > 0 {
                text.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
            Ok(())
        });
        Running { child, lines, seen: String::new(), printed, reader: Some(reader) }
    }

    pub(crate) fn run(self) -> Run {
        self.start().ended()
    }
}

/// A running process. It is killed if the test ends first.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: String,
    /// What it has printed on standard output.
    printed: Arc<Mutex<String>>,
    reader: Option<JoinHandle<std::io::Result<()>>>,
}

impl Running {
    /// Writes this text to standard input, and closes it.
    pub(crate) fn answer(&mut self, text: &str) {
        // The process may have ended already.
        let _ = self.child.stdin.take().unwrap().write_all(text.as_bytes());
    }

    /// Waits for a line on standard error that contains this text. Returns the line.
    pub(crate) fn await_line(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}; there were:\n{}", self.seen));
            self.seen.push_str(&line);
            self.seen.push('\n');
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until it has printed this text on standard output.
    pub(crate) fn await_output(&self, text: &str) {
        until(|| {
            let printed = self.printed.lock().unwrap();
            if printed.contains(text) { Ok(()) } else { Err(format!("{text:?} was not printed:\n{printed}")) }
        });
    }

    /// Waits until SIGINT does not end it at once any more.
    pub(crate) fn await_handler_of_sigint(&self) {
        until(|| {
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            let is_caught = u64::from_str_radix(caught, 16).unwrap() & 0b10 != 0;
            is_caught.then_some(()).ok_or("SIGINT has no handler")
        });
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(status.unwrap().success(), "kill -{name}");
    }

    /// Kills it (SIGKILL), and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Run {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            // It is minutes.
            assert!(Instant::now() < deadline, "still running after {LIMIT:?}; it said:\n{}", self.drained());
            std::thread::sleep(Duration::from_millis(10));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap().unwrap();
        }
        let stdout = std::mem::take(&mut *self.printed.lock().unwrap());
        // The channel closes after this, because the process held the other end of standard error.
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        Run { code: status.code().unwrap_or(-1), stdout, stderr: std::mem::take(&mut self.seen) }
    }

    fn drained(&mut self) -> &str {
        for line in self.lines.try_iter() {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        &self.seen
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
