//! What one test gets: a database with both schemas, a directory for logs, a seed, a size, and functions that start
//! workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use tokio::sync::watch;
use tokio_postgres::Client;
use torture::cluster::{self, Cluster, connect};
use torture::disk::SmallDisk;
use torture::history;
use torture::process::Process;

use super::mutants::{Mutant, RunningMutant};
use super::vanishing_host::Host;
use crate::options::Options;
use crate::role::Role;

/// How long a worker may take to start on a busy machine.
pub(super) const START: Duration = Duration::from_secs(120);
/// What has not happened after this time will never happen.
const FOR_EVER: Duration = Duration::from_secs(300);
/// The lease of every worker.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// The pause until a mutant that was noticed is asked again whether it has changed all of its statements.
const UNTIL_COMPLETE: Duration = Duration::from_millis(100);

/// The size of a test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Jobs to run.
    pub(super) jobs: usize,
    /// Faults to inject.
    pub(super) faults: usize,
}

/// The environment of one test.
pub(super) struct Fixture<'c> {
    pub(super) cluster: &'c Cluster,
    pub(super) name: &'static str,
    pub(super) seed: u64,
    pub(super) short: bool,
    /// Whether bounds of time are printed and not judged.
    pub(super) untimed: bool,
    jobs: Option<usize>,
    database: String,
    dir: PathBuf,
    logs: PathBuf,
    started: AtomicUsize,
    mutant: Option<Arc<RunningMutant>>,
    /// The URL at which workers write their history, if that is not the database of their jobs.
    history: Option<String>,
    /// The first complaint of a [`Watch`](super::watch::Watch).
    complaint: watch::Sender<Option<String>>,
}

impl<'c> Fixture<'c> {
    /// Creates the environment, for the product or for a mutant of it.
    pub(super) async fn open(
        cluster: &'c Cluster,
        options: &Options,
        name: &'static str,
        seed: u64,
        mutant: Option<&'static Mutant>,
    ) -> Result<Self> {
        let running = match mutant {
            Some(mutant) => Some(Arc::new(RunningMutant::start(mutant, cluster.port()).await?)),
            None => None,
        };
        let database = format!("torture_{}", name.replace('-', "_"));
        let logs = options.dir.join("logs").join(format!("{name}-{seed}"));
        if logs.exists() {
            fs::remove_dir_all(&logs)?;
        }
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let fixture = Self {
            cluster,
            name,
            seed,
            short: options.short,
            untimed: options.untimed,
            jobs: options.jobs,
            database,
            dir: options.dir.clone(),
            logs,
            started: 0.into(),
            mutant: running,
            history: None,
            complaint: watch::Sender::new(None),
        };
        fixture.set_up().await?;
        Ok(fixture)
    }

    /// Creates the environment of the same test on another server. Workers there write their history to the database of
    /// `self`.
    pub(super) async fn on<'s>(&self, cluster: &'s Cluster) -> Result<Fixture<'s>> {
        let fixture = self.at(cluster);
        fixture.set_up().await?;
        Ok(fixture)
    }

    /// The same for a server that has the database already, as the standby of another one.
    pub(super) fn at<'s>(&self, cluster: &'s Cluster) -> Fixture<'s> {
        let mutant = self.mutant.clone();
        if let Some(mutant) = &mutant {
            mutant.connect_to(cluster.port());
        }
        let (database, dir, logs) = (self.database.clone(), self.dir.clone(), self.logs.clone());
        let Self { name, seed, short, untimed, jobs, .. } = *self;
        let history = Some(self.url());
        let (started, complaint) = (0.into(), self.complaint.clone());
        Fixture { cluster, name, seed, short, untimed, jobs, database, dir, logs, started, mutant, history, complaint }
    }

    async fn set_up(&self) -> Result<()> {
        self.cluster.create(&self.database).await?;
        diesel_jobs::migrate(&mut AsyncPgConnection::establish(&self.url()).await?).await?;
        let conn = self.connect().await?;
        history::create(&conn).await?;
        // An earlier mutant may have left settings in the server.
        let mutant = self.mutant.as_ref().map_or("", |running| running.mutant().server);
        for sql in ["alter system reset all", mutant, "select pg_reload_conf()"] {
            conn.batch_execute(sql).await?;
        }
        Ok(())
    }

    /// Removes the logs and the database of a test that passed.
    pub(super) async fn clear(&self) -> Result<()> {
        fs::remove_dir_all(&self.logs)?;
        self.cluster.remove(&self.database).await
    }

    /// The directory of the processes' logs.
    pub(super) fn logs(&self) -> &Path {
        &self.logs
    }

    /// The path of PgBouncer's program: what `JOBS_TEST_PGBOUNCER` names, or one that is found or built.
    pub(super) fn pgbouncer(&self) -> Result<PathBuf> {
        if let Some(program) = std::env::var_os("JOBS_TEST_PGBOUNCER") {
            return Ok(program.into());
        }
        ::cluster::pgbouncer::ensure(&std::path::absolute(self.dir.join("pgbouncer"))?)
    }

    /// Creates an empty disk of this many MiB at a path that servers can access.
    pub(super) fn small_disk(&self, mebibytes: usize) -> Result<SmallDisk> {
        SmallDisk::mount(&std::path::absolute(self.cluster.home().join("disk"))?, &self.logs, mebibytes)
    }

    /// Starts a server of the test's own in addition to the suite's, with these additional settings.
    pub(super) fn another_cluster(&self, name: &str, settings: &str) -> Result<Cluster> {
        Cluster::start_with(&std::path::absolute(self.dir.join(name))?, &super::postgres()?, settings)
    }

    /// The name of its database.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// The URL of its database, without the faults of proxies and mutants.
    pub(super) fn url(&self) -> String {
        self.cluster.url(&self.database)
    }

    /// The URL at which workers reach its database.
    pub(super) fn worker_url(&self) -> String {
        self.url_through(self.upstream())
    }

    /// The port to which a proxy before the workers connects.
    pub(super) fn upstream(&self) -> u16 {
        self.mutant.as_ref().map_or_else(|| self.cluster.port(), |mutant| mutant.port())
    }

    /// The mutant that is tested instead of the product.
    pub(super) fn mutant(&self) -> Option<&RunningMutant> {
        self.mutant.as_deref()
    }

    /// Where the first complaint of a watch is written.
    pub(super) fn first_complaint(&self) -> watch::Sender<Option<String>> {
        self.complaint.clone()
    }

    /// Waits until a watch complains of a mutant. Waits for ever if the product is tested: its whole run counts.
    pub(super) async fn noticed(&self) -> String {
        let Some(mutant) = &self.mutant else { return std::future::pending().await };
        let mut complaint = self.complaint.subscribe();
        loop {
            // This object is a sender, so the channel is open.
            let complained = complaint.wait_for(Option::is_some).await.ok().and_then(|complaint| complaint.clone());
            if let Some(complaint) = complained
                && mutant.is_complete()
            {
                return complaint;
            }
            tokio::time::sleep(UNTIL_COMPLETE).await;
        }
    }

    /// The URL of its database through a proxy at this port.
    pub(super) fn url_through(&self, port: u16) -> String {
        cluster::url(port, &self.database)
    }

    /// Opens a connection for the suite's own queries.
    pub(super) async fn connect(&self) -> Result<Client> {
        connect(&self.url()).await
    }

    /// Returns the short or the long size, as the options ask, with the number of jobs from the options if they give
    /// one.
    pub(super) fn size(&self, short: Size, long: Size) -> Size {
        let size = if self.short { short } else { long };
        Size { jobs: self.jobs.unwrap_or(size.jobs), ..size }
    }

    /// How long to wait for what must happen at last. A run whose times are not judged only guards against waiting for
    /// ever, but a mutant may never do it.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        if self.untimed && self.mutant.is_none() { limit.max(FOR_EVER) } else { limit }
    }

    /// Starts a worker on this URL. Its history is not affected by the URL's faults. It must survive crashes of the
    /// server only in tests that crash the server.
    pub(super) fn worker(&self, url: &str, history: History, args: &[&str]) -> Result<Process> {
        self.worker_with(url, history, args, &[])
    }

    /// The same, with these variables in its environment.
    pub(super) fn worker_with(
        &self,
        url: &str,
        history: History,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        let past = self.history.clone().unwrap_or_else(|| self.url());
        let history = match history {
            History::Durable => past,
            History::Quick => format!("{past}&options=-csynchronous_commit%3Doff"),
        };
        let mut command = Role::Worker.command(&history)?;
        command.env("DATABASE_URL", url).env("RUST_LOG", "info").args(["run", "--lease", "3s"]).args(args);
        command.envs(environment.iter().copied());
        command.envs(self.mutant.as_deref().into_iter().flat_map(RunningMutant::environment).copied());
        Process::start(command, self.log("worker"))
    }

    /// Starts a worker on a host that can vanish, or on this one, with `parameters` at the end of its URL. Its history
    /// is stored in the database of its jobs.
    pub(super) fn worker_on(&self, host: Option<&Host>, parameters: &str, args: &[&str]) -> Result<Process> {
        let url = host.map_or_else(|| self.url(), |host| self.url().replacen("127.0.0.1", &host.server(), 1));
        let mut command = Role::Worker.command(&url)?;
        command.env("DATABASE_URL", url.clone() + parameters).env("RUST_LOG", "info");
        command.args(["run", "--lease", "3s"]).args(args);
        let command = if let Some(host) = host { host.runs(&command) } else { command };
        Process::start(command, self.log("worker"))
    }

    /// Starts a process that keeps a processor busy.
    pub(super) fn burner(&self) -> Result<Process> {
        Process::start(Role::Burner.command("")?, self.log("burner"))
    }

    fn log(&self, role: &str) -> PathBuf {
        self.logs.join(format!("{role}-{:03}.log", self.started.fetch_add(1, Ordering::Relaxed)))
    }
}

/// How a worker's history is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// Recorded events survive a crash of the server.
    Durable,
    /// Commits do not wait for the disk.
    Quick,
}

/// Returns the single number that a query selects.
pub(super) async fn number(conn: &Client, sql: &str) -> Result<i64> {
    Ok(conn.query_one(sql, &[]).await.with_context(|| sql.to_owned())?.get(0))
}
