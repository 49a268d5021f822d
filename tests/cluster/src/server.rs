//! One server on one data directory. It is created once, started, stopped in several ways, and repaired after a crash.
//! [`Cluster`](crate::Cluster) coordinates its users.

use std::{
    fs::{self, DirBuilder},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{Postgres, certificate::Certificate, home::home, memory, owner::Owner, process::PidFile, run};

/// The number of attempts to start. The free port may be taken before the server has it, and the child processes of a
/// killed server keep its shared memory for a moment.
const ATTEMPTS: u32 = 10;

/// The statements of all databases of a test run have room, so that none is forgotten.
const STATISTICS: &str =
    "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.max = 50000\npg_stat_statements.save = off\n";

/// The arguments of initdb for a server that sorts by bytes, and for one that sorts as in German.
const BY_BYTES: &[&str] = &["--no-locale"];
const GERMAN: &[&str] = &["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=de"];

/// In the data of a server that does not sort as in German: why.
const SORTS_BY_BYTES: &str = "sorts_by_bytes";

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ends its sessions, and writes what is committed to the disk.
    Fast,
    /// Stops as in a power failure: nothing is written, and the next start recovers.
    Immediate,
}

/// One server on one data directory.
#[derive(Debug)]
pub struct Server {
    bin: PathBuf,
    /// The directory that is removed to begin from scratch.
    dir: PathBuf,
    /// The directory of data, socket, log and certificate: `dir`, or a temporary directory if `dir` is not
    /// usable.
    home: PathBuf,
    owner: Owner,
    /// Whether its databases are in memory, if the machine has room.
    in_memory: bool,
    /// Whether its commands are printed.
    loud: bool,
    /// The additional variables in its environment.
    environment: Vec<(String, String)>,
    /// Whether it counts the statements of all databases.
    statistics: bool,
    /// The arguments of initdb for the locale.
    locale: &'static [&'static str],
}

impl Server {
    /// Returns a server whose files are in `dir`. Nothing is created or started yet.
    pub fn at(dir: &Path, postgres: &Postgres) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let owner = Owner::find()?;
        let home = home(dir, &owner)?;
        let (bin, dir) = (postgres.bin.clone(), dir.to_path_buf());
        Ok(Self {
            bin,
            dir,
            home,
            owner,
            in_memory: false,
            loud: true,
            environment: Vec::new(),
            statistics: false,
            locale: BY_BYTES,
        })
    }

    /// Has its databases in memory, if the machine has room when they are created.
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Does not print its commands. It is for a server that is crashed repeatedly.
    pub fn quiet(mut self) -> Self {
        self.loud = false;
        self
    }

    /// Starts it with these variables in its environment.
    pub fn with_environment(mut self, environment: &[(&str, &str)]) -> Self {
        self.environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self
    }

    /// Speaks German in the databases that are set to `lc_messages = 'C.UTF-8'`. This needs no locale of the machine,
    /// only a server that was built with translations. With `C`, which is the default of the tests' servers, messages
    /// are not translated.
    pub fn in_german(mut self) -> Self {
        self.environment.push(("LANGUAGE".to_owned(), "de".to_owned()));
        self
    }

    /// Sorts as in German, which needs PostgreSQL 15 and ICU, but no locale of the machine. A server that cannot do it
    /// sorts by bytes, and says so.
    pub fn sorting_as_in_german(mut self) -> Self {
        self.locale = GERMAN;
        self
    }

    /// Loads `pg_stat_statements`, if this server has it.
    pub fn with_statistics(mut self) -> Self {
        self.statistics = self.bin.join("../lib/pg_stat_statements.so").exists();
        self
    }

    fn capture(&self, command: &mut Command, fix: &str) -> Result<String> {
        if self.loud { run::capture(command, fix) } else { run::capture_quietly(command, fix) }
    }

    /// The URL of the server at this port, as superuser, for the database `postgres`.
    pub fn url(port: u16) -> String {
        format!("postgres://tester@127.0.0.1:{port}/postgres")
    }

    /// The path of the certificate (PEM) of the authority that clients must trust.
    pub fn authority(&self) -> PathBuf {
        Certificate::within(&self.home).authority
    }

    /// The path of its log.
    pub fn log(&self) -> PathBuf {
        self.home.join("server.log")
    }

    /// Returns the port of the server, or `None` if it does not run. It is an error if the data belongs to another
    /// user.
    pub fn running(&self) -> Result<Option<u16>> {
        let data = self.data();
        if data.exists() && !self.owner.owns(&data) {
            bail!(
                "{} belongs to another user\n  to fix: as that user or root, remove {}",
                data.display(),
                self.dir.display()
            );
        }
        Ok(PidFile::read(&data).filter(|file| file.is_server_of(&data) && file.answers()).map(|file| file.port))
    }

    /// Returns the process id of the postmaster, while there is one.
    pub fn pid(&self) -> Option<u32> {
        let data = self.data();
        PidFile::read(&data).filter(|file| file.is_server_of(&data)).map(|file| file.pid)
    }

    /// The directory of its data, its log and its socket.
    pub fn home(&self) -> &Path {
        &self.home
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn pg_ctl(&self, verb: &str) -> Command {
        let mut command = self.owner.command(self.bin.join("pg_ctl"), &self.home);
        command.args([verb, "--silent", "--wait", "--timeout", "60", "--pgdata"]).arg(self.data());
        command
    }

    /// Stops it, and waits for its end.
    pub fn halt(&self, how: Stop) -> Result<()> {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        let fix = "end the process that the first line of postmaster.pid in the data directory names";
        self.capture(self.pg_ctl("stop").args(["--mode", mode]), fix).map(drop)
    }

    /// Prepares it for a start: removes what a killed server left behind, and creates what does not exist.
    pub fn prepare(&self) -> Result<()> {
        self.clear()?;
        self.initialise()
    }

    /// Removes what a killed server left behind, and stops a server that does not answer.
    fn clear(&self) -> Result<()> {
        let data = self.data();
        let Some(file) = PidFile::read(&data) else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            if !file.is_server_of(&data) {
                eprintln!("the last server was killed (pid {}): clearing up after it", file.pid);
                for entry in fs::read_dir(&self.home)?.flatten() {
                    if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
                        remove_if_there(&entry.path())?;
                    }
                }
                return remove_if_there(&data.join("postmaster.pid"));
            }
            if self.running()?.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
        self.halt(Stop::Immediate)
    }

    /// Runs initdb, unless there is data of this version. It creates the data in another directory and renames that, so
    /// that an interrupted initdb is not used.
    fn initialise(&self) -> Result<()> {
        let data = self.data();
        let version =
            self.capture(self.owner.command(self.bin.join("postgres"), &self.home).arg("--version"), "set PG_BIN")?;
        let wanted = version.split(' ').nth(2).unwrap_or_default();
        let wanted = wanted.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if let Ok(found) = fs::read_to_string(data.join("PG_VERSION")) {
            if found.trim() != wanted {
                eprintln!("the data are of PostgreSQL {}, the server is {wanted}: making new ones", found.trim());
            } else if memory::is_there(&data) {
                if let Ok(problem) = fs::read_to_string(data.join(SORTS_BY_BYTES)) {
                    eprintln!("{problem}");
                }
                return Ok(());
            }
        }
        let aside = self.home.join("data.new");
        match self.initialise_in(&aside, self.locale) {
            Err(problem) if self.locale != BY_BYTES => {
                let problem = format!(
                    "SKIPPED: NOTHING is tested in another order: this server does not sort as in German, which needs PostgreSQL 15 with ICU: \
                     {problem:#}"
                );
                eprintln!("{problem}");
                self.initialise_in(&aside, BY_BYTES)?;
                fs::write(aside.join(SORTS_BY_BYTES), problem)?;
            }
            done => done?,
        }
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        if self.in_memory
            && let Some(databases) = memory::place(&self.home, &self.owner)?
        {
            self.execute_alone(&aside, &memory::statements(&databases))?;
        }
        fs::rename(&aside, &data).context("cannot put the new data directory in place")
    }

    /// Runs initdb in this directory.
    fn initialise_in(&self, dir: &Path, locale: &[&str]) -> Result<()> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        DirBuilder::new().mode(0o700).create(dir)?;
        self.owner.give(dir)?;
        let mut initdb = self.owner.command(self.bin.join("initdb"), &self.home);
        initdb.args(["--username", "tester", "--auth=trust", "--encoding=UTF8"]).args(locale).arg("--pgdata").arg(dir);
        self.capture(&mut initdb, "set PG_BIN to the directory of a complete PostgreSQL server").map(drop)
    }

    /// Executes statements, one per line, on a data directory without a server.
    fn execute_alone(&self, data: &Path, statements: &str) -> Result<()> {
        let script = self.home.join("statements.sql");
        fs::write(&script, statements)?;
        let mut alone = self.owner.command(self.bin.join("postgres"), &self.home);
        alone.args(["--single", "-D"]).arg(data).arg("postgres").stdin(fs::File::open(&script)?);
        // It reports a failed statement, and then succeeds.
        alone.args(["-c", "exit_on_error=true"]);
        self.capture(&mut alone, "free memory, or read its message above")?;
        remove_if_there(&script)
    }

    /// Starts it on this port, or on a free one, with these additional lines in its settings. Returns the port.
    pub fn launch(&self, port: Option<u16>, settings: &str) -> Result<u16> {
        Certificate::within(&self.home).ensure(&self.owner)?;
        let log = self.log();
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let port = port.map_or_else(free_port, Ok)?;
            self.configure(port, settings)?;
            remove_if_there(&log)?;
            let mut start = self.pg_ctl("start");
            start.arg("--log").arg(&log).envs(self.environment.iter().map(|(name, value)| (name, value)));
            match self.capture(&mut start, "read the log below") {
                Ok(_) => return Ok(port),
                Err(_) if left > 0 => thread::sleep(Duration::from_secs(1)),
                Err(error) => {
                    let log = fs::read_to_string(&log).unwrap_or_default();
                    return Err(error.context(format!("PostgreSQL does not start; its log:\n{log}")));
                }
            }
        }
    }

    /// Writes all settings that differ from PostgreSQL's defaults. Commits stay durable, because durability is tested.
    fn configure(&self, port: u16, settings: &str) -> Result<()> {
        let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', "''"));
        let certificate = Certificate::within(&self.home);
        let statistics = if self.statistics { STATISTICS } else { "" };
        let text = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = {}\nmax_connections = 300\nmax_prepared_transactions = 10\n\
             ssl = on\nssl_cert_file = {}\nssl_key_file = {}\nssl_ca_file = {}\n\
             timezone = 'UTC'\nlog_timezone = 'UTC'\nlog_line_prefix = '%m [%p] %d %a '\n{statistics}{settings}\n",
            quoted(&self.home),
            quoted(&certificate.server),
            quoted(&certificate.key),
            quoted(&certificate.authority),
        );
        let path = self.data().join("postgresql.conf");
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn remove_if_there(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
