//! The worker processes, seen from their parent. Each is this program, started again.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::Notify;

use super::line::Line;
use crate::cli::exit::CliError;

/// How long a process may take until it is ready: it connects and checks the schema.
const START: Duration = Duration::from_secs(20);

/// How long a process may take to end after the request.
const STOP: Duration = Duration::from_secs(3);

/// How many bytes of a process's standard error are kept.
const LAST_WORDS: usize = 2_000;

/// The running processes. They end at the latest when this value is dropped.
pub(super) struct Fleet {
    url: String,
    slots: usize,
    children: Mutex<Vec<Child>>,
}

/// The processes of one step.
pub(super) struct Team {
    members: Vec<Arc<Member>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Member {
    ready: AtomicBool,
    done: AtomicU64,
}

#[derive(Default)]
struct Shared {
    changed: Notify,
    ended: Notify,
    last_words: Mutex<String>,
    picks: Mutex<Vec<(usize, Duration)>>,
}

impl Fleet {
    pub(super) fn new(url: &str, slots: usize) -> Self {
        Self { url: url.to_owned(), slots, children: Mutex::default() }
    }

    /// Starts this many processes and waits until all of them claim.
    pub(super) async fn start(&self, processes: usize) -> Result<Team, CliError> {
        let shared = Arc::<Shared>::default();
        let mut members = Vec::with_capacity(processes);
        for _ in 0..processes {
            let mut child = self.spawn().map_err(|error| {
                CliError::failed(format!("starting a worker process, which is this program again: {error}"))
            })?;
            let member = Arc::<Member>::default();
            if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
                tokio::spawn(listen(stdout, stderr, member.clone(), shared.clone()));
            }
            locked(&self.children).push(child);
            members.push(member);
        }
        let team = Team { members, shared };
        tokio::select! {
            biased;
            problem = team.ended() => Err(problem),
            () = team.all_ready() => Ok(team),
            () = tokio::time::sleep(START) => {
                Err(CliError::failed(format!("a worker process was not ready after {} s", START.as_secs())))
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["bench-worker", "--slots", &self.slots.to_string()])
            // Not as an argument: every user of the machine can read arguments.
            .env("DATABASE_URL", &self.url)
            .env_remove("DATABASE_URL_FILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // The terminal sends Ctrl-C to the whole process group. Only this process must receive it; it then ends the
        // others in order.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }

    /// Ends all processes. Returns when they have ended.
    pub(super) async fn stop(&self) {
        let mut children = std::mem::take(&mut *locked(&self.children));
        for child in &mut children {
            drop(child.stdin.take());
        }
        for mut child in children {
            if tokio::time::timeout(STOP, child.wait()).await.is_err() {
                // `kill` fails only if the process has ended in the meantime.
                let _ = child.kill().await;
            }
        }
    }
}

impl Team {
    /// Returns how many jobs the team has completed so far.
    pub(super) fn done(&self) -> u64 {
        self.counter()()
    }

    /// Returns a function that reads the count of completed jobs while the team works.
    pub(super) fn counter(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let members = self.members.clone();
        move || members.iter().map(|member| member.done.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of each probe that was picked up so far, with the time.
    pub(super) fn picks(&self) -> Vec<(usize, Duration)> {
        locked(&self.shared.picks).clone()
    }

    /// Returns when a process has ended without a request.
    pub(super) async fn ended(&self) -> CliError {
        self.shared.ended.notified().await;
        let said = locked(&self.shared.last_words).trim().to_owned();
        let said = said.strip_prefix("error: ").unwrap_or(&said);
        CliError::failed(format!("a worker process ended by itself{}{said}", if said.is_empty() { "" } else { ": " }))
    }

    async fn all_ready(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.members.iter().all(|member| member.ready.load(Ordering::Relaxed)) {
                return;
            }
            changed.await;
        }
    }
}

/// Reads the output of a process until it ends.
async fn listen(stdout: ChildStdout, stderr: ChildStderr, member: Arc<Member>, shared: Arc<Shared>) {
    let complaints = tokio::spawn(read(stderr));
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match Line::parse(&line) {
            Some(Line::Ready) => {
                member.ready.store(true, Ordering::Relaxed);
                shared.changed.notify_one();
            }
            Some(Line::Done(done)) => member.done.store(done, Ordering::Relaxed),
            Some(Line::Picked { number, at }) => locked(&shared.picks).push((number, at)),
            None => {}
        }
    }
    let said = complaints.await.unwrap_or_default();
    locked(&shared.last_words).push_str(&said);
    shared.ended.notify_one();
}

/// Returns the last [`LAST_WORDS`] bytes of a process's standard error.
async fn read(mut stderr: ChildStderr) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        all.extend_from_slice(&piece[..length]);
        let excess = all.len().saturating_sub(LAST_WORDS);
        all.drain(..excess);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
