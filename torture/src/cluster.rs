//! A PostgreSQL server of the suite. It keeps its port, so workers find it again after each crash.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::{Postgres, Server, Stop};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Client, NoTls};

/// The differences from PostgreSQL's defaults. There is room for the connections of killed workers. No checkpoint falls
/// into the recovery after a crash. Commits stay durable, because durability is tested.
const SETTINGS: &str = "max_connections = 500\nssl = off\nmax_wal_size = '4GB'\nlog_checkpoints = off\n";

/// How long a server may take to accept connections after its start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running cluster. It is stopped when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    port: u16,
    settings: String,
    /// The lock of the directory. While it is held, no other process crashes the server in it.
    _lock: File,
}

impl Cluster {
    /// Starts the cluster of a directory, and creates it if there is none. Waits until other users of the directory
    /// end.
    pub fn start(dir: &Path, postgres: &Postgres) -> Result<Self> {
        Self::start_with(dir, postgres, "")
    }

    /// The same, with these additional lines in its settings.
    pub fn start_with(dir: &Path, postgres: &Postgres, settings: &str) -> Result<Self> {
        Self::start_in(dir, postgres, settings, &[])
    }

    /// The same, with these variables in the environment of the server.
    pub fn start_in(dir: &Path, postgres: &Postgres, settings: &str, environment: &[(&str, &str)]) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let lock = File::options().create(true).append(true).open(dir.join("torture.lock"))?;
        lock.lock()?;
        let server = Server::at(dir, postgres)?.quiet().with_environment(environment);
        // This process holds the lock, so a server that runs here was left behind by a suite that was killed.
        if server.pid().is_some() {
            server.halt(Stop::Immediate)?;
        }
        server.prepare()?;
        let settings = format!("{SETTINGS}{settings}");
        let port = server.launch(None, &settings)?;
        Ok(Self { server, port, settings, _lock: lock })
    }

    /// Starts a server in another directory that follows this one as its standby. This one is restarted for that.
    pub fn with_standby(&self, dir: &Path, postgres: &Postgres) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let lock = File::options().create(true).append(true).open(dir.join("torture.lock"))?;
        lock.lock()?;
        let server = Server::at(dir, postgres)?.quiet();
        self.server.halt(Stop::Fast)?;
        // The copy belongs to the user of the server, as the original does.
        let copied = Command::new("cp").arg("-a").args([self.home().join("data"), server.home().join("data")]).status();
        anyhow::ensure!(copied.context("cannot run cp")?.success(), "cannot copy {}", self.home().display());
        self.restart()?;
        let mut standby = Self { server, port: 0, settings: self.settings.clone(), _lock: lock };
        standby.port = standby.launch_as_standby(None, self)?;
        Ok(standby)
    }

    /// Starts this server, which was stopped, as the standby of another one.
    pub fn follow(&self, primary: &Self) -> Result<()> {
        self.launch_as_standby(Some(self.port), primary).map(drop)
    }

    fn launch_as_standby(&self, port: Option<u16>, primary: &Self) -> Result<u16> {
        fs::write(self.home().join("data/standby.signal"), "")?;
        let primary = format!("primary_conninfo = 'host=127.0.0.1 port={} user=tester'\n", primary.port);
        self.server.launch(port, &format!("{}{primary}", self.settings))
    }

    /// Stops the server. Its standby has everything then.
    pub fn stop(&self) -> Result<()> {
        self.server.halt(Stop::Fast)
    }

    /// Makes a standby the primary. Returns when it accepts writes.
    pub async fn promote(&self) -> Result<()> {
        let promoted = connect(&self.url("postgres")).await?.query_one("select pg_promote(true, 60)", &[]).await?;
        anyhow::ensure!(promoted.get::<_, bool>(0), "the standby was not promoted within a minute");
        Ok(())
    }

    /// The directory of its files: the requested one, unless the server's user cannot access that.
    pub fn home(&self) -> &Path {
        self.server.home()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// Stops the server at once, as a power failure would.
    pub fn crash(&self) -> Result<()> {
        self.server.halt(Stop::Immediate)
    }

    /// Starts the server again after a stop. Returns when it accepts connections.
    pub fn restart(&self) -> Result<()> {
        self.server.prepare()?;
        self.server.launch(Some(self.port), &self.settings).map(drop)
    }

    /// Whether the server has a process: it runs or is starting.
    pub fn is_up(&self) -> bool {
        self.server.pid().is_some()
    }

    /// Suspends the server and all its sessions, as a virtual machine is paused.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues the suspended server.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(postmaster) = self.server.pid() else { bail!("the server does not run") };
        for pid in family(postmaster)? {
            // A session may end between the listing and the signal.
            let _ = Pid::from_raw(pid.cast_signed()).map(|pid| kill_process(pid, signal));
        }
        Ok(())
    }

    /// Returns the current length of the server's log in bytes.
    pub fn log_length(&self) -> Result<u64> {
        Ok(fs::metadata(self.server.log()).context("cannot read the server's log")?.len())
    }

    /// Returns what the server has logged since its log had this length.
    pub fn log_since(&self, length: u64) -> Result<String> {
        let log = fs::read(self.server.log()).context("cannot read the server's log")?;
        let since = usize::try_from(length)?.min(log.len());
        Ok(String::from_utf8_lossy(&log[since..]).into_owned())
    }

    /// Changes a setting that a reload applies to a running server.
    pub async fn set(&self, name: &str, value: &str) -> Result<()> {
        let conn = connect(&self.url("postgres")).await?;
        conn.batch_execute(&format!("alter system set {name} = '{value}'")).await?;
        conn.batch_execute("select pg_reload_conf()").await?;
        Ok(())
    }

    /// Creates an empty database with this name. Removes an existing one first.
    pub async fn create(&self, database: &str) -> Result<()> {
        self.remove(database).await?;
        let conn = connect(&self.url("postgres")).await?;
        conn.batch_execute(&format!("create database {database}")).await?;
        Ok(())
    }

    /// Removes a database, even if sessions are connected to it.
    pub async fn remove(&self, database: &str) -> Result<()> {
        let conn = connect(&self.url("postgres")).await?;
        conn.batch_execute(&format!("drop database if exists {database} with (force)")).await?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.pid().is_some() {
            let _ = self.resume();
            let _ = self.server.halt(Stop::Fast);
        }
    }
}

/// The URL of a database at this port of this machine: the port of a server, or of a proxy before it.
pub fn url(port: u16, database: &str) -> String {
    format!("postgres://tester@127.0.0.1:{port}/{database}?sslmode=disable")
}

/// Opens a plain connection, without the tested code. Waits up to `START_LIMIT` for a server that is starting.
pub async fn connect(url: &str) -> Result<Client> {
    let attempt = async {
        loop {
            match tokio_postgres::connect(url, NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(START_LIMIT, attempt).await.with_context(|| format!("cannot connect to {url}"))
}

/// A process and its children.
fn family(parent: u32) -> Result<Vec<u32>> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output().context("cannot run ps")?;
    let children = String::from_utf8_lossy(&listed.stdout).lines().filter_map(child_of(parent)).collect::<Vec<_>>();
    Ok([parent].into_iter().chain(children).collect())
}

fn child_of(parent: u32) -> impl Fn(&str) -> Option<u32> {
    move |line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (pid, ppid) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (ppid == parent).then_some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::child_of;

    #[test]
    fn children_are_told_from_others() {
        let child = child_of(7);
        assert_eq!(child(" 12 7"), Some(12));
        assert_eq!(child("7 1"), None);
        assert_eq!(child(""), None);
    }
}
