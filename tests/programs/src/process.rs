//! Real processes: they are started with a clean environment, awaited with a limit, and killed with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::wait::until;

/// The number of lines of its log that a failed test prints.
const LAST_WORDS: usize = 20;

/// How the names of the variables begin that the programs, libpq or Rocket read.
const READ: [&str; 4] = ["JOBS_", "PG", "ROCKET_", "RUST_LOG"];

/// Prepares a binary, without the variables of the caller's environment that it would read.
fn command(binary: &str, database_url: &str) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let read = |name: &str| READ.iter().any(|prefix| name.starts_with(prefix));
        if name.to_str().is_some_and(read) {
            command.env_remove(name);
        }
    }
    command.env("DATABASE_URL", database_url);
    command
}

/// Findings about the server of all tests: it has settings that are for tests only, and other tests use it.
const OF_SERVER: [&str; 6] =
    ["setting", "old_transaction", "connections", "notification_queue", "wraparound", "autovacuum"];

/// What `doctor` of this worker finds in a database, apart from what it says of the server.
pub fn findings(worker: &str, database_url: &str) -> Vec<String> {
    let run = command(worker, database_url).args(["doctor", "--json"]).stderr(Stdio::inherit()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let findings = report["findings"].as_array().expect("a list of findings");
    let of_others = findings.iter().filter(|one| OF_SERVER.iter().all(|check| one["check"] != *check));
    of_others.map(ToString::to_string).collect()
}

/// A running process. It is killed if the test ends first.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a binary on a database, without the variables of the caller's environment that it would read.
    pub fn start(binary: &str, database_url: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = command(binary, database_url);
        command.envs(env.iter().copied()).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().expect("it was asked for");
        let log = Arc::default();
        let lines = Arc::clone(&log);
        // The thread ends with the process.
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                locked(&lines).push(line);
            }
        });
        let name = binary.rsplit('/').next().unwrap_or(binary).to_owned();
        Self { name, child, log }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of its log with this text. Returns the rest of the line.
    pub async fn logged(&self, text: &str) -> String {
        until(&format!("{:?} in the log of `{}`", text, self.name), async || {
            locked(&self.log).iter().find_map(|line| line.split_once(text).map(|(_, rest)| rest.trim().to_owned()))
        })
        .await
    }

    /// Sends a signal by its name: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -{name}");
    }

    /// Waits for its end, and returns how it ended.
    pub async fn ended(&mut self) -> ExitStatus {
        until(&format!("`{}` to end", self.name), async || self.child.try_wait().unwrap()).await
    }

    /// Waits for its end, which must be successful.
    pub async fn succeeded(mut self) {
        let status = self.ended().await;
        assert!(status.success(), "`{}` ended with {status}", self.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = locked(&self.log);
            let last = log[log.len().saturating_sub(LAST_WORDS)..].join("\n  ");
            let _ = writeln!(std::io::stderr(), "the last words of `{}`:\n  {last}", self.name);
        }
    }
}

fn locked(log: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
