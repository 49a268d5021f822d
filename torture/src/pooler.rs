//! PgBouncer in transaction mode. Each transaction may run in another session of the server than the one before it, and
//! finds there what other clients left in that session.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;

use crate::process::Process;

/// How long it may take until it listens.
const START: Duration = Duration::from_secs(10);
/// How long its end may take.
const END: Duration = Duration::from_secs(5);
/// A shell script that runs PgBouncer. PgBouncer must be killed when the suite is killed. A pipe is closed then.
/// PgBouncer does not watch this pipe, but the script does. PgBouncer does not run as root either, so root runs it as
/// `nobody`.
const GUARD: &str = r#"if [ "$(id -u)" = 0 ]; then set -- "$@" -u nobody; fi
"$0" "$@" </dev/null & pooler=$!; read -r nothing; kill -KILL $pooler; wait $pooler"#;
/// Selects what stays in a session of the server after its transaction, and is visible to the next client. Settings
/// that PgBouncer keeps separately for each client are left out.
const LEFT_BEHIND: &str = "
    select 'listens on ' || channel from pg_listening_channels() as channel
    union all
    select 'holds the advisory lock ' || classid || ' ' || objid from pg_locks
    where locktype = 'advisory' and pid = pg_backend_pid()
    union all
    select 'has set ' || name || ' to ' || setting from pg_settings where source = 'session'
    and name not in ('application_name', 'client_encoding', 'DateStyle', 'IntervalStyle', 'standard_conforming_strings', 'TimeZone')
    union all
    select 'has the temporary table ' || relname from pg_class where relpersistence = 't' and relkind = 'r'
    and relnamespace = pg_my_temp_schema()
    union all
    select 'has prepared by SQL: ' || statement from pg_prepared_statements where from_sql";

/// The configuration of PgBouncer.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The server's port, or that of a proxy before it.
    pub upstream: u16,
    /// How many sessions of the server it opens for one database.
    pub sessions: usize,
    /// Whether it ignores start-up options. Otherwise it refuses connections that have some.
    pub ignores_options: bool,
}

/// A running PgBouncer. It is killed when it is dropped.
#[derive(Debug)]
pub struct Pooler {
    program: PathBuf,
    dir: PathBuf,
    port: u16,
    process: Process,
    starts: usize,
}

impl Pooler {
    /// Starts PgBouncer, with its files in this directory.
    pub async fn start(program: &Path, dir: &Path, setup: Setup) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let Setup { upstream, sessions, ignores_options } = setup;
        let ignored = if ignores_options { "ignore_startup_parameters = options\n" } else { "" };
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={upstream} user=tester\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             max_prepared_statements = 200\ndefault_pool_size = {sessions}\nmax_client_conn = 1000\n{ignored}\
             server_login_retry = 1\nlog_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n"
        );
        fs::write(dir.join("pgbouncer.ini"), settings)?;
        let process = launch(program, dir, 0)?;
        let pooler = Self { program: program.to_owned(), dir: dir.to_owned(), port, process, starts: 1 };
        pooler.listens().await?;
        Ok(pooler)
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills PgBouncer, with all that is in progress, and starts it again.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.hang_up();
        self.process.ended(END).await?;
        self.process = launch(&self.program, &self.dir, self.starts)?;
        self.starts += 1;
        self.listens().await
    }

    async fn listens(&self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_err() {
            ensure!(begun.elapsed() < START, "PgBouncer does not start:\n{}", self.process.written()?);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.process.hang_up();
        let begun = Instant::now();
        while self.process.is_alive().unwrap_or(false) && begun.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn launch(program: &Path, dir: &Path, start: usize) -> Result<Process> {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD]).arg(program).arg(dir.join("pgbouncer.ini"));
    Process::start(command, dir.join(format!("pgbouncer-{start}.log")))
}

/// Returns what is left in the server's sessions behind a pooler. `sessions` is the number of its sessions. One
/// transaction is opened in each of them.
pub async fn left_behind(url: &str, sessions: usize) -> Result<Vec<String>> {
    let (mut looking, mut seen, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sessions {
        let (conn, connection) = tokio_postgres::connect(url, NoTls).await.context("cannot look behind the pooler")?;
        tokio::spawn(connection);
        conn.batch_execute("begin").await?;
        seen.push(conn.query_one("select pg_backend_pid()", &[]).await?.get::<_, i32>(0));
        let rows = conn.query(LEFT_BEHIND, &[]).await?;
        found.extend(rows.iter().map(|row| format!("a session of the server {}", row.get::<_, &str>(0))));
        // The connection stays in its transaction, so that the next one gets another session.
        looking.push(conn);
    }
    seen.sort_unstable();
    seen.dedup();
    ensure!(seen.len() == sessions, "{sessions} transactions at once had {} sessions of the server", seen.len());
    for conn in looking {
        conn.batch_execute("rollback").await?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}
