//! What a worker and a dashboard say to systemd, if a unit of `Type=notify` has started them: that they are ready, that
//! they are alive, and that they stop. For a worker this has a thread and a runtime of its own, so that handlers that
//! block do not delay it.
//!
//! The protocol is one datagram with a few lines (`man sd_notify`), so it needs no library.

use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diesel_jobs_core::{HealthCheck, WorkerHandle};

use super::settings::Environment;

/// The time between two reports without a watchdog.
const STATUS_EVERY: Duration = Duration::from_secs(30);
/// How much later than the worker ends itself the unit may kill it.
const MARGIN: Duration = Duration::from_secs(5);

/// The socket of the unit.
pub(super) struct Notifier {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The time within which the unit expects a sign of life, if it does.
    watchdog: Option<Duration>,
    /// A message was refused. This is said once.
    has_failed: AtomicBool,
}

impl Notifier {
    /// `None` if no unit has started this process, or if its socket cannot be used.
    pub(super) fn of(env: Environment<'_>) -> Option<Self> {
        let path = env("NOTIFY_SOCKET")?.into_string().ok().filter(|path| !path.is_empty())?;
        let opened = address(&path).and_then(|address| Ok((UnixDatagram::unbound()?, address)));
        let (socket, address) = opened.inspect_err(|problem| unusable(&path, problem)).ok()?;
        let number = |name| env(name)?.into_string().ok()?.parse::<u64>().ok();
        let is_ours = env("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(std::process::id().into());
        let watchdog = number("WATCHDOG_USEC").filter(|time| *time > 0 && is_ours).map(Duration::from_micros);
        Some(Self { socket, address, watchdog, has_failed: AtomicBool::new(false) })
    }

    /// Reports on this worker from now on, until the process ends. That is within this time after the worker begins to
    /// stop.
    pub(super) fn follow(self, worker: WorkerHandle, ends_within: Duration) {
        self.send("STATUS=connected to the database, and starting");
        let begun = tokio::runtime::Builder::new_current_thread().enable_time().build().and_then(|runtime| {
            let thread = std::thread::Builder::new().name("jobs-systemd".to_owned());
            thread.spawn(move || runtime.block_on(self.report(&worker, ends_within)))
        });
        // That is no reason to run no jobs.
        if let Err(problem) = begun {
            tracing::warn!(target: "diesel_jobs", "systemd will not be notified: {problem}");
        }
    }

    /// Says that a dashboard is ready. Then gives signs of life from the calling task: they end if its runtime does not
    /// run tasks any more, and then it does not answer requests either. Does not end.
    #[cfg(feature = "dashboard")]
    pub(super) async fn follow_dashboard(&self, place: &str) {
        self.send(&format!("READY=1\nSTATUS=serving {place}"));
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        loop {
            self.send("WATCHDOG=1");
            tokio::time::sleep(watchdog / 2).await;
        }
    }

    /// Says that a dashboard stops.
    #[cfg(feature = "dashboard")]
    pub(super) fn dashboard_stops(&self) {
        self.send("STOPPING=1");
    }

    async fn report(&self, worker: &WorkerHandle, ends_within: Duration) {
        let every = self.watchdog.map_or(STATUS_EVERY, |watchdog| watchdog / 2);
        worker.until_started().await;
        self.send("READY=1");
        let running = async {
            loop {
                self.send(&sign_of_life(&worker.liveness(), &status(worker), self.watchdog.is_some()));
                tokio::time::sleep(every).await;
            }
        };
        tokio::select! {
            () = running => {}
            () = worker.until_draining() => {}
        }
        self.send(&stopping(ends_within));
        loop {
            self.send(&sign_of_life(&worker.liveness(), &status(worker), self.watchdog.is_some()));
            tokio::time::sleep(every).await;
        }
    }

    /// A message that is lost is followed by the next one. Only the first could be missed, and then the unit says that
    /// the start took too long.
    fn send(&self, message: &str) {
        if let Err(problem) = self.socket.send_to_addr(message.as_bytes(), &self.address)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(target: "diesel_jobs", "systemd could not be notified (NOTIFY_SOCKET): {problem}");
        }
    }
}

/// A name that begins with `@` is in the abstract namespace, which only Linux has.
fn address(path: &str) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}

fn unusable(path: &str, problem: &std::io::Error) {
    tracing::warn!(target: "diesel_jobs", "the socket {path:?} (NOTIFY_SOCKET) cannot be used, so systemd is not notified: {problem}");
}

/// The unit restarts a worker whose claim loop is stuck, because the signs of life end.
fn sign_of_life(liveness: &HealthCheck, status: &str, watched: bool) -> String {
    match (liveness.passed, watched) {
        (true, true) => format!("WATCHDOG=1\nSTATUS={status}"),
        (true, false) => format!("STATUS={status}"),
        (false, _) => format!("STATUS=the claim loop is stuck: {}", liveness.detail),
    }
}

fn status(worker: &WorkerHandle) -> String {
    let (stats, running) = (worker.stats(), worker.in_flight());
    let does = if worker.is_draining() { "stopping" } else { "claiming jobs" };
    let (completed, retried, discarded) = (stats.completed, stats.retried, stats.discarded);
    format!("{does}: {running} in progress; {completed} completed, {retried} to be retried, {discarded} discarded")
}

/// The unit waits for the grace period even if its own time for the stop is shorter.
fn stopping(ends_within: Duration) -> String {
    format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", ends_within.saturating_add(MARGIN).as_micros())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn watchdog(variables: &[(&str, &str)]) -> Option<Duration> {
        let env = |name: &str| -> Option<OsString> {
            let found = variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
            found.or_else(|| (name == "NOTIFY_SOCKET").then(|| OsString::from("/run/notify")))
        };
        Notifier::of(&env).unwrap().watchdog
    }

    #[test]
    fn a_stuck_claim_loop_gives_no_sign_of_life() {
        let check = |passed| HealthCheck::new("claim_loop", passed, "the last step was 70 s ago");
        assert_eq!(sign_of_life(&check(true), "claiming", true), "WATCHDOG=1\nSTATUS=claiming");
        assert_eq!(sign_of_life(&check(true), "claiming", false), "STATUS=claiming");
        let stuck = sign_of_life(&check(false), "claiming", true);
        assert_eq!(stuck, "STATUS=the claim loop is stuck: the last step was 70 s ago");
    }

    #[test]
    fn the_watchdog_of_another_process_is_ignored() {
        let ours = std::process::id().to_string();
        let time = ("WATCHDOG_USEC", "3000000");
        assert_eq!(watchdog(&[time]), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(&[time, ("WATCHDOG_PID", &ours)]), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(&[time, ("WATCHDOG_PID", "1")]), None);
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(watchdog(&[]), None);
    }

    #[test]
    fn without_a_usable_socket_nobody_is_notified() {
        assert!(Notifier::of(&|_| None).is_none());
        let too_long = "/".repeat(300);
        assert!(Notifier::of(&|name| (name == "NOTIFY_SOCKET").then(|| OsString::from(&too_long))).is_none());
    }

    #[test]
    fn the_grace_period_extends_the_time_of_the_unit() {
        assert_eq!(stopping(Duration::from_secs(70)), "STOPPING=1\nEXTEND_TIMEOUT_USEC=75000000");
    }
}
