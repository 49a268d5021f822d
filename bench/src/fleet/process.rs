//! One worker process.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

/// How many lines of the log are kept for an error message.
const LOG: usize = 20;
/// How long a drain may take.
const END: Duration = Duration::from_secs(60);

/// A report of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Connected,
    /// The total since the start of the process.
    Completed(u64),
    /// The job's id, and nanoseconds since 1970.
    Started(i64, u128),
    /// Microseconds.
    Claimed(f64),
    /// The id of a job whose handler began.
    Ran(usize),
    /// The total since the start of the process.
    Conflicts(u64),
    /// The output of the process is closed.
    Ended,
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let event = match words.next()? {
            "connected" => Self::Connected,
            "completed" => Self::Completed(words.next()?.parse().ok()?),
            "started" => Self::Started(words.next()?.parse().ok()?, words.next()?.parse().ok()?),
            "claimed" => Self::Claimed(words.next()?.parse().ok()?),
            "ran" => Self::Ran(words.next()?.parse().ok()?),
            "conflicts" => Self::Conflicts(words.next()?.parse().ok()?),
            _ => return None,
        };
        Some(event)
    }
}

/// A worker process. It is killed when dropped.
pub(super) struct Process {
    child: Child,
    stdin: ChildStdin,
    log: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    pub(super) fn spawn(
        url: &str,
        arguments: &[String],
        place: usize,
        events: UnboundedSender<(usize, Event)>,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("DATABASE_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting a worker process")?;
        let stdin = child.stdin.take().context("a worker process without input")?;
        let stdout = child.stdout.take().context("a worker process without output")?;
        let stderr = child.stderr.take().context("a worker process without log")?;
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(event) = Event::parse(&line) {
                    let _ = events.send((place, event));
                }
            }
            let _ = events.send((place, Event::Ended));
        });
        let log = Arc::<Mutex<VecDeque<String>>>::default();
        let kept = log.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == LOG {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
        Ok(Self { child, stdin, log })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) async fn say(&mut self, word: &str) -> Result<()> {
        self.stdin.write_all(format!("{word}\n").as_bytes()).await.context("a worker process does not listen any more")
    }

    /// Sends SIGKILL.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.start_kill().context("killing a worker process")
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(&mut self) -> Result<()> {
        tokio::time::timeout(END, self.child.wait()).await.context("a worker process does not end")??;
        Ok(())
    }

    /// Returns the last lines of its log. It waits a moment first, because they may still arrive.
    pub(super) async fn end_of_log(&self) -> String {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_and_other_lines_are_ignored() {
        assert_eq!(Event::parse("connected"), Some(Event::Connected));
        assert_eq!(Event::parse("completed 12"), Some(Event::Completed(12)));
        assert_eq!(Event::parse("started 7 1700000000000000001"), Some(Event::Started(7, 1_700_000_000_000_000_001)));
        assert_eq!(Event::parse("claimed 850"), Some(Event::Claimed(850.0)));
        assert_eq!(Event::parse("ran 7"), Some(Event::Ran(7)));
        assert_eq!(Event::parse("conflicts 3"), Some(Event::Conflicts(3)));
        for other in ["", "completed", "completed x", "started 1", "ran -1", "hello world"] {
            assert_eq!(Event::parse(other), None, "{other}");
        }
    }
}
