//! A standby: commands that read work, and commands that write tell why they cannot. Whoever uses a primary that
//! becomes a standby goes on with the new primary.

use std::process::Command;
use std::time::Duration;

use cluster::{Own, Server, Stop};
use jobs::Database;
use jobs::store::Claim;
use jobs::worker::WorkerId;
use serde_json::json;

use crate::support::http::{address, get, scraped};
use crate::support::proxy::Proxy;
use crate::support::{Prepared, Scratch, Terminal, on_postgres, until, worker};
use crate::{serving, top};

#[test]
fn a_standby_is_found_and_named() {
    let dir = Scratch::new();
    let server = Own::at(dir.path()).unwrap();
    server.prepare().unwrap();
    let run =
        |port: u16, args: &[&str]| worker("fixture-worker").args(args).env("DATABASE_URL", Server::url(port)).run();
    let port = server.launch(None, "").unwrap();
    run(port, &["migrate"]).succeeded();
    assert_eq!(run(port, &["doctor"]).succeeded().stdout, "no problems\n");
    server.halt(Stop::Fast).unwrap();

    // It has no primary to follow, so it stays a standby.
    std::fs::write(server.home().join("data/standby.signal"), "").unwrap();
    server.launch(Some(port), "").unwrap();
    let found = run(port, &["doctor"]).exited(1).stdout;
    assert!(found.starts_with("error[standby]: the server is a standby, which takes no writes"), "{found}");
    assert!(found.contains("target_session_attrs=read-write"), "{found}");
    assert_eq!(run(port, &["list"]).succeeded().stdout, "no job matches\n");
    run(port, &["run"]).exited(1).complained(&["target_session_attrs=read-write"]);
    // A pooler may have led a worker here.
    let refused = poll(&Server::url(port)).unwrap_err();
    assert!(refused.contains("a standby has answered the poll; this server takes no writes"), "{refused}");
    assert_eq!(poll(&format!("{}?target_session_attrs=any", Server::url(port))), Ok(()));
}

/// Asks what an idle worker asks.
fn poll(url: &str) -> Result<(), String> {
    let polled = async {
        let database = Database::open(url, 0).await?;
        let claim = Claim::new(WorkerId::generate(), Vec::new(), Vec::new());
        database.storage.poll(&claim, Duration::from_secs(3)).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(polled).map(drop).map_err(|problem| problem.to_string())
}

/// A primary that becomes a standby, and the server that takes over. The address of the primary leads to the old one
/// for a while, as names do, and connections to it stay open.
struct Failover {
    old: Own,
    new: Own,
    port: u16,
    proxy: Proxy,
    _dirs: [Scratch; 2],
}

impl Failover {
    fn prepare() -> Self {
        let dirs = [Scratch::new(), Scratch::new()];
        let [old, new] = dirs.each_ref().map(|dir| Own::at(dir.path()).unwrap());
        old.prepare().unwrap();
        let port = old.launch(None, "").unwrap();
        let url = Server::url(port);
        worker("fixture-worker").args(["migrate"]).env("DATABASE_URL", &url).run().succeeded();
        Self { old, new, port, proxy: Proxy::start(&url), _dirs: dirs }
    }

    /// The URL of the old primary.
    fn url(&self) -> String {
        Server::url(self.port)
    }

    /// Prepares a process that connects by the address of the primary.
    fn process(&self, args: &[&str]) -> Prepared {
        worker("fixture-worker").args(args).env("DATABASE_URL", self.proxy.url())
    }

    /// Makes a standby of the primary.
    fn demote(&self) {
        self.old.halt(Stop::Fast).unwrap();
        let [old, new] = [&self.old, &self.new].map(|server| server.home().join("data"));
        assert!(Command::new("cp").arg("-a").args([&old, &new]).status().unwrap().success());
        std::fs::write(old.join("standby.signal"), "").unwrap();
        self.old.launch(Some(self.port), "").unwrap();
    }

    /// Starts the other server as the primary. New connections lead there after this has been done on it. Returns its
    /// URL.
    fn take_over(&self, first: &str) -> String {
        let url = Server::url(self.new.launch(None, "").unwrap());
        on_postgres(&url, first);
        self.proxy.lead_to(&url);
        url
    }
}

/// Enqueues a job that is due then.
fn enqueue(url: &str, queue: &str, after: &str) {
    let job = format!("'greet', '{{\"name\": \"ada\"}}', queue => '{queue}'");
    on_postgres(url, &format!("select jobs.enqueue({job}, run_at => now() + interval '{after}')"));
}

/// A statement that waits until this one returns a row. `since` is when it has begun.
fn until_sql(query: &str) -> String {
    format!(
        "set statement_timeout = '5min';
         do $$ declare since timestamptz := clock_timestamp(); begin while not exists ({query}) loop
             perform pg_sleep(0.1), pg_stat_clear_snapshot();
         end loop; end $$"
    )
}

fn is_ready(address: &str) -> bool {
    get(address, "/readyz").status == 200
}

fn await_completed(address: &str, jobs: f64) {
    let completed = || scraped(address).sum("messaging_process_duration_seconds_count", &[("kind", "greet")]);
    until(|| if completed() == jobs { Ok(()) } else { Err(format!("{jobs} jobs")) });
}

/// Fails unless the only attempt of this job has completed it.
fn assert_completed_at_once(url: &str, id: &str) {
    let job = worker("fixture-worker").args(["show", id, "--json"]).env("DATABASE_URL", url).run().succeeded().json();
    assert_eq!((&job["state"], &job["attempt"], &job["errors"]), (&json!("completed"), &json!(1), &json!([])), "{job}");
}

const MAKE_DUE: &str = "update jobs.ready set run_at = now()";

#[test]
fn a_worker_leaves_a_primary_that_has_become_a_standby() {
    let servers = Failover::prepare();
    enqueue(&servers.url(), "mail", "0 s");
    let args = ["--listen", "127.0.0.1:0", "--poll-interval", "100ms", "--lease", "1h"];
    let mut process = servers.process(&args).start();
    let address = address(&mut process);
    await_completed(&address, 1.0);
    enqueue(&servers.url(), "mail", "1 hour");

    servers.demote();
    let refused = || scraped(&address).sum("jobs_database_errors_total", &[("error_type", "refused")]);
    until(|| if refused() > 0.0 { Ok(()) } else { Err("a statement that the standby refuses") });
    until(|| if is_ready(&address) { Err("the worker is ready") } else { Ok(()) });

    let url = servers.take_over(MAKE_DUE);
    await_completed(&address, 2.0);
    until(|| if is_ready(&address) { Ok(()) } else { Err("the worker is not ready again") });
    assert_completed_at_once(&url, "2");
}

/// The second one rests: it has nothing to do for five minutes.
#[test]
fn idle_workers_leave_a_primary_that_has_become_a_standby() {
    let servers = Failover::prepare();
    let url = servers.url();
    let start = |queue: &str, args: &[&str]| {
        enqueue(&url, queue, "1 hour");
        let mut process = servers.process(&[&["--listen", "127.0.0.1:0", "--queues", queue], args].concat()).start();
        let address = address(&mut process);
        (process, address)
    };
    let workers = [start("mail", &[]), start("rare", &["--poll-interval", "5m"])];
    on_postgres(&url, &until_sql("select from jobs.worker where lease > interval '5 minutes'"));

    servers.demote();
    for (_, address) in &workers {
        until(|| if is_ready(address) { Err("an idle worker is ready") } else { Ok(()) });
    }
    let url = servers.take_over(MAKE_DUE);
    for ((_, address), id) in workers.iter().zip(["1", "2"]) {
        await_completed(address, 1.0);
        until(|| if is_ready(address) { Ok(()) } else { Err("an idle worker is not ready again") });
        assert_completed_at_once(&url, id);
    }
}

/// No statement of theirs is refused.
#[test]
fn who_only_reads_leaves_a_primary_that_has_become_a_standby() {
    let servers = Failover::prepare();
    enqueue(&servers.url(), "mail", "1 hour");
    let tail = ["tail", "--interval", "100ms"];
    let mut dashboard = servers.process(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"]).start();
    let mut follows = servers.process(&tail).start();
    let at = serving::address(&mut dashboard);
    follows.await_line("following");
    until(|| if is_ready(&at) { Ok(()) } else { Err("the dashboard is not ready") });

    servers.demote();
    follows.await_line("the database answers again");
    let any = format!("{}?target_session_attrs=any&application_name=stays", servers.proxy.url());
    let mut stays = worker("fixture-worker").args(tail).env("DATABASE_URL", any).start();
    stays.await_line("following");
    let terminal = Terminal::open(120, 30);
    top::start(&terminal, servers.proxy.url(), "", "");
    let actions = || {
        let (status, text) = serving::page(&at, "/jobs/1");
        if status == 200 { Ok(text.contains("value=\"cancel\"")) } else { Err(text) }
    };
    until(|| if actions()? { Err("the standby has actions".to_owned()) } else { Ok(()) });
    let probed = || get(&at, "/readyz").body;
    until(|| if probed().contains("the server is a standby") { Ok(()) } else { Err(probed()) });
    assert_eq!((get(&at, "/readyz").status, get(&at, "/livez").status), (503, 200));
    let mut reads =
        servers.process(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace", "--read-only"]).start();
    let for_readers = serving::address(&mut reads);
    until(|| if is_ready(&for_readers) { Ok(()) } else { Err("the dashboard that only reads is not ready") });

    let url = servers.take_over("");
    until(|| if actions()? { Ok(()) } else { Err("the dashboard has no actions".to_owned()) });
    until(|| if is_ready(&at) { Ok(()) } else { Err("the dashboard is not ready again") });
    assert!(serving::cancel(&at, "", 1) < 400);
    follows.await_output(&format!("{:9} 1 ", "cancelled"));
    enqueue(&url, "mail", "0 s");
    terminal.await_text("1 job due");
    let asks = "select from pg_stat_activity where application_name = 'stays' and query_start > since";
    on_postgres(&servers.url(), &until_sql(asks));
    stays.signal("INT");
    assert_eq!(stays.ended().exited(0).stdout, "");
}
