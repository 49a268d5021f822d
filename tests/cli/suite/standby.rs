//! A standby: commands that read work, and commands that write tell why they cannot.

use cluster::{Postgres, Server, Stop};

use crate::support::{Scratch, worker};

/// A server of this test's own. It is stopped when the test has ended.
struct Own(Server);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.halt(Stop::Immediate);
    }
}

#[test]
fn a_standby_is_found_and_named() {
    let postgres =
        Postgres { bin: std::env::var_os("JOBS_TEST_PG_BIN").expect("`cargo xtask test` sets it").into(), libpq: None };
    let dir = Scratch::new();
    let own = Own(Server::at(dir.path(), &postgres).unwrap().quiet());
    let server = &own.0;
    server.prepare().unwrap();
    let run =
        |port: u16, args: &[&str]| worker("fixture-worker").args(args).env("DATABASE_URL", Server::url(port)).run();
    let port = server.launch(None, "").unwrap();
    run(port, &["migrate"]).succeeded();
    assert_eq!(run(port, &["check"]).succeeded().stdout, "no problems\n");
    server.halt(Stop::Fast).unwrap();

    // It has no primary to follow, so it stays a standby.
    std::fs::write(server.home().join("data/standby.signal"), "").unwrap();
    server.launch(Some(port), "").unwrap();
    let found = run(port, &["check"]).exited(1).stdout;
    assert!(found.starts_with("error: the server is a standby, which takes no writes"), "{found}");
    assert!(found.contains("target_session_attrs=read-write"), "{found}");
    assert_eq!(run(port, &["list"]).succeeded().stdout, "no job matches\n");
    run(port, &["run"]).exited(1).complained(&["target_session_attrs=read-write"]);
}
