//! A standby: commands that read work, and commands that write tell why they cannot. A worker on a primary that becomes
//! a standby goes on with the new primary.

use std::process::Command;

use cluster::{Own, Server, Stop};
use serde_json::json;

use crate::support::http::{address, get, scraped};
use crate::support::proxy::Proxy;
use crate::support::{Scratch, on_postgres, until, worker};

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
}

/// The address of the primary leads to the old one for a while, as names do, and connections to it stay open.
#[test]
fn a_worker_leaves_a_primary_that_has_become_a_standby() {
    let (here, there) = (Scratch::new(), Scratch::new());
    let (old, new) = (Own::at(here.path()).unwrap(), Own::at(there.path()).unwrap());
    old.prepare().unwrap();
    let port = old.launch(None, "").unwrap();
    let url = Server::url(port);
    worker("fixture-worker").args(["migrate"]).env("DATABASE_URL", &url).run().succeeded();
    let enqueue = |after: &str| {
        on_postgres(
            &url,
            &format!(
                "select jobs.enqueue('greet', '{{\"name\": \"ada\"}}', queue => 'mail', run_at => now() + interval '{after}')"
            ),
        );
    };
    enqueue("0 s");
    let proxy = Proxy::start(&url);
    let mut process = worker("fixture-worker")
        .args(["--listen", "127.0.0.1:0", "--poll-interval", "100ms", "--lease", "1h"])
        .env("DATABASE_URL", proxy.url())
        .start();
    let address = address(&mut process);
    let completed = || scraped(&address).sum("messaging_process_duration_seconds_count", &[("kind", "greet")]);
    let await_completed = |jobs: f64| until(|| if completed() == jobs { Ok(()) } else { Err(format!("{jobs} jobs")) });
    await_completed(1.0);
    enqueue("1 hour");

    old.halt(Stop::Fast).unwrap();
    let copied = Command::new("cp").arg("-a").args([old.home().join("data"), new.home().join("data")]).status();
    assert!(copied.unwrap().success());
    std::fs::write(old.home().join("data/standby.signal"), "").unwrap();
    old.launch(Some(port), "").unwrap();
    let refused = || scraped(&address).sum("jobs_database_errors_total", &[("error_type", "refused")]);
    until(|| if refused() > 0.0 { Ok(()) } else { Err("a statement that the standby refuses") });
    until(|| if get(&address, "/readyz").status == 503 { Ok(()) } else { Err("the worker is not ready") });

    let url = Server::url(new.launch(None, "").unwrap());
    on_postgres(&url, "update jobs.ready set run_at = now()");
    proxy.lead_to(&url);
    await_completed(2.0);
    until(|| if get(&address, "/readyz").status == 200 { Ok(()) } else { Err("the worker is ready again") });
    let job = worker("fixture-worker").args(["show", "2", "--json"]).env("DATABASE_URL", &url).run().succeeded().json();
    assert_eq!((&job["state"], &job["attempt"], &job["errors"]), (&json!("completed"), &json!(1), &json!([])), "{job}");
}
