//! Real worker processes: they are started, receive signals by process id, are awaited with a deadline, and are always
//! ended.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

/// The interval at which a process is polled when there is nothing to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// One process. It is killed when this value is dropped, even if it is suspended. Its standard input is a pipe, which
/// closes when its parent ends, in whatever way.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with its standard error in a file. Removes all environment variables of the caller that a
    /// worker reads.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let read = text.starts_with("JOBS_") || text.starts_with("PG") || text == "DATABASE_URL";
            if read && !command.get_envs().any(|(set, _)| set == name) {
                command.env_remove(&name);
            }
        }
        // Many panics are planned. With their backtraces each would take a second.
        command.env("RUST_BACKTRACE", "0");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        Ok(Self { child, log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file of its standard error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.id().cast_signed()).context("a process number")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal process {}", self.id()))
    }

    /// Kills it (SIGKILL), and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Closes the pipe, as the end of its parent does.
    pub fn hang_up(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end. Returns its exit code, or -1 if a signal ended it. It is an error if it still runs after
    /// `limit`.
    pub async fn ended(&mut self, limit: Duration) -> Result<i32> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code().unwrap_or(-1));
            }
            if Instant::now() > deadline {
                bail!("process {} still runs after {limit:?}; its log is {}", self.id(), self.log.display());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until it has written this text. It is an error if it ends before, or does not write it within `limit`.
    pub async fn said(&mut self, text: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.written()?.contains(text) {
            if !self.is_alive()? {
                return Err(anyhow!("process {} ended without a word of {text:?}:\n{}", self.id(), self.written()?));
            }
            if Instant::now() > deadline {
                return Err(anyhow!("waited {limit:?}, and {text:?} is not in {}", self.log.display()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns what it has written so far.
    pub fn written(&self) -> Result<String> {
        let mut text = Vec::new();
        File::open(&self.log)?.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns how many lines of all logs in a directory contain this text.
pub fn lines_with(logs: &Path, text: &str) -> Result<usize> {
    let mut lines = 0;
    for entry in fs::read_dir(logs)? {
        let file = fs::read(entry?.path())?;
        lines += String::from_utf8_lossy(&file).lines().filter(|line| line.contains(text)).count();
    }
    Ok(lines)
}

/// Ends this process when its parent has ended. It is called by the programs that [`Process`] starts.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // Nothing is ever written to this pipe. The read returns when the parent has closed its end.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, dir: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, dir.join(format!("{}.log", script.len()))).unwrap()
    }

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("jobs-torture-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[tokio::test]
    async fn what_a_process_says_and_how_it_ends_is_heard() {
        let dir = dir("said");
        let mut process = sh("echo ready >&2; read nothing; exit 3", &dir);
        process.said("ready", Duration::from_secs(10)).await.unwrap();
        assert!(process.is_alive().unwrap());
        assert_eq!(lines_with(&dir, "ready").unwrap(), 1);
        process.hang_up();
        assert_eq!(process.ended(Duration::from_secs(10)).await.unwrap(), 3);
        assert!(process.said("more", Duration::from_secs(10)).await.is_err());
        fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn a_stopped_process_does_not_outlive_its_owner() {
        let dir = dir("stopped");
        let process = sh("sleep 600", &dir);
        let id = process.id();
        process.signal(Signal::STOP).unwrap();
        drop(process);
        assert!(kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::CONT).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
