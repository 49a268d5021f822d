//! Passwords that change while a worker or a dashboard runs, and a server that refuses them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

use cluster::{Own, Server, Stop};
use serde_json::json;

use crate::support::http::{address, exchange, get, scraped};
use crate::support::pooler::Pooler;
use crate::support::{Prepared, Scratch, on_postgres, until, worker};

const DEFAULT_ARGS: [&str; 6] = ["--listen", "127.0.0.1:0", "--poll-interval", "100ms", "--lease", "1h"];

/// A server that asks the role `app` for a password, and a file with the URL of this role.
struct World {
    admin: String,
    file: PathBuf,
    port: u16,
    // The server must end before its directory.
    server: Own,
    _dir: Scratch,
}

impl World {
    fn new() -> Self {
        let dir = Scratch::new();
        let server = Own::at(dir.path()).unwrap();
        let port = server.launch_with_passwords().unwrap();
        let admin = Server::url(port);
        worker("fixture-worker").args(["migrate"]).env("DATABASE_URL", &admin).run().succeeded();
        on_postgres(&admin, "create role app login superuser password 's3cret-1'");
        let world = Self { admin, file: dir.path().join("url"), port, server, _dir: dir };
        world.write("s3cret-1");
        world
    }

    /// Writes the URL with this password, as a platform replaces a secret.
    fn write(&self, password: &str) {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("postgres://app:{password}@127.0.0.1:{}/postgres\n", self.port)).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Changes the password of the role, and ends all sessions, also those that are about to begin.
    fn change(&self, password: &str) {
        on_postgres(&self.admin, &format!("alter role app password '{password}'"));
        self.server.halt(Stop::Fast).unwrap();
        self.server.launch(Some(self.port), "").unwrap();
    }

    fn enqueue(&self) {
        on_postgres(&self.admin, "select jobs.enqueue('greet', '{\"name\": \"ada\"}', queue => 'mail')");
    }

    fn program(&self, args: &[&str]) -> Prepared {
        worker("fixture-worker").args(args).env("DATABASE_URL_FILE", &self.file)
    }
}

#[track_caller]
fn await_status(at: &str, path: &str, status: u16) {
    until(|| match get(at, path).status {
        found if found == status => Ok(()),
        found => Err(format!("{path} answers {found}, not {status}")),
    });
}

#[test]
fn a_worker_goes_on_with_the_password_that_its_file_has_now() {
    let world = World::new();
    world.enqueue();
    let mut process = world.program(&DEFAULT_ARGS).start();
    let at = address(&mut process);
    let completed = || scraped(&at).sum("messaging_process_duration_seconds_count", &[("kind", "greet")]);
    let await_completed = |jobs: f64| until(|| if completed() == jobs { Ok(()) } else { Err(format!("{jobs} jobs")) });
    await_completed(1.0);
    await_status(&at, "/readyz", 200);

    world.change("s3cret-2");
    await_status(&at, "/readyz", 503);
    assert_eq!(get(&at, "/livez").status, 200);
    world.enqueue();
    // The file is empty or missing for a moment. That is no reason to end.
    for damage in [|file: &PathBuf| fs::write(file, "").unwrap(), |file: &PathBuf| fs::remove_file(file).unwrap()] {
        damage(&world.file);
        let failures = || scraped(&at).sum("jobs_database_errors_total", &[("error_type", "unavailable")]);
        let before = failures();
        until(|| if failures() > before { Ok(()) } else { Err("a connection that fails because of the file") });
        world.write("wrong");
    }
    world.write("s3cret-2");
    await_completed(2.0);
    await_status(&at, "/readyz", 200);
    process.signal("TERM");
    process.ended().succeeded().never_said("s3cret");
    let job = world.program(&["show", "2", "--json"]).run().succeeded().json();
    assert_eq!((&job["state"], &job["attempt"], &job["errors"]), (&json!("completed"), &json!(1), &json!([])), "{job}");
}

#[test]
fn a_dashboard_goes_on_with_the_password_that_its_file_has_now() {
    let world = World::new();
    let mut process = world.program(&["dashboard", "--listen", "127.0.0.1:0", "--actor", "grace"]).start();
    let line = process.await_line("http://");
    let at = line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
    let await_answer = |status: &str| {
        let request = format!("GET /queues HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
        until(|| match exchange(&at, request.as_bytes()) {
            answer if answer.starts_with(&format!("HTTP/1.1 {status}")) => Ok(()),
            answer => Err(format!("not {status}: {answer}")),
        });
    };
    await_answer("200");
    world.change("s3cret-2");
    await_answer("503");
    world.write("s3cret-2");
    await_answer("200");
}

#[test]
fn a_worker_whose_credentials_are_refused_for_long_ends_with_a_code_of_its_own() {
    let world = World::new();
    let mut process = world.program(&DEFAULT_ARGS).env("FIXTURE_ENDS_AT_FIRST_REFUSAL", "1").start();
    let at = address(&mut process);
    await_status(&at, "/readyz", 200);
    world.change("s3cret-2");
    let said = [
        "the server refuses the credentials",
        "\"app\"",
        "the worker ends",
        "are its user and its password or certificate right?",
    ];
    process.ended().exited(6).complained(&said).never_said("s3cret");
    // So does each command at once, and a role that does not exist is no other case.
    world.program(&["list"]).run().exited(6).complained(&["the server refuses the credentials"]).never_said("s3cret");
    let unknown = format!("postgres://nobody:s3cret@127.0.0.1:{}/postgres", world.port);
    let run = worker("fixture-worker").args(["run"]).env("DATABASE_URL", unknown).run();
    run.exited(6).complained(&["the server refuses the credentials", "database postgres at"]).never_said("s3cret");
}

#[test]
fn without_a_password_a_server_that_asks_for_one_is_no_outage() {
    let world = World::new();
    let url = format!("postgres://app@127.0.0.1:{}/postgres", world.port);
    for args in ["run", "list", "migrate"] {
        let run = worker("fixture-worker").args([args]).env("DATABASE_URL", &url).run();
        run.exited(6).complained(&["the server asks for a password", "postgres://user:password@host/database"]);
    }
}

/// PgBouncer has the same code (08P01) for refused settings and for refused credentials.
#[test]
fn a_pooler_that_refuses_the_credentials_is_no_outage() {
    for refusal in [
        "SASL authentication failed",
        "password authentication failed",
        "certificate authentication failed",
        "no such user",
        "login rejected",
    ] {
        let pooler = Pooler::refusing("postgres://app@127.0.0.1:1/app", refusal);
        for args in [&["list"][..], &["run"], &["doctor"]] {
            let run = worker("fixture-worker").args(args).env("DATABASE_URL", pooler.url()).run();
            run.exited(6).complained(&["the server refuses the credentials", refusal]);
        }
    }
    let pooler = Pooler::refusing("postgres://app@127.0.0.1:1/app", "no more connections allowed (max_client_conn)");
    worker("fixture-worker").args(["list"]).env("DATABASE_URL", pooler.url()).run().exited(3);
}

#[test]
fn a_server_that_answers_without_tls_is_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://app@{}/app?sslmode=require", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The request for TLS, and the refusal.
            stream.read_exact(&mut [0; 8]).unwrap();
            stream.write_all(b"N").unwrap();
        }
    });
    let run = worker("fixture-worker").args(["list"]).env("DATABASE_URL", url).run();
    run.exited(3)
        .complained(&["the server answers, but not with TLS", "sslmode=prefer"])
        .never_said("that the server is up");
}

#[test]
fn at_the_start_a_file_without_a_url_is_an_error() {
    let dir = Scratch::new();
    let file = dir.path().join("url");
    let path = file.to_str().unwrap();
    for args in [&["run"][..], &["dashboard"], &["list"], &["doctor"], &["migrate"]] {
        let run = || worker("fixture-worker").args(args).args(["--database-url-file", path]).in_dir(dir.path()).run();
        run().exited(2).complained(&[&format!("the file {path}"), "cannot be read: No such file"]);
        fs::write(&file, "\n").unwrap();
        run().exited(2).complained(&[&format!("the file {path} is empty")]);
        fs::write(&file, "postgres://me:s3cret@h:port/app").unwrap();
        run().exited(2).complained(&[&format!("the file {path}"), "not a valid PostgreSQL URL"]).never_said("s3cret");
        fs::remove_file(&file).unwrap();
    }
    // A command that needs no database does not read it.
    let sql = ["migrate", "sql", "--backend", "postgres", "--database-url-file", path];
    worker("fixture-worker").args(sql).run().succeeded();
}

/// A URL with a password may be in each place where a path or another value belongs.
#[test]
fn a_url_in_the_wrong_place_is_not_repeated() {
    let url = "postgres://me:s3cret@127.0.0.1:1/app";
    let refused = |prepared: Prepared, said: &str| {
        prepared.run().exited(2).complained(&[said]).never_said("s3cret");
    };
    let run = |args: &[&str]| worker("fixture-worker").args(args);
    for args in [&["run"][..], &["list"], &["doctor"]] {
        refused(run(args).env("DATABASE_URL_FILE", url), "DATABASE_URL or --database-url to the URL");
        refused(run(args).args(["--database-url-file", url]), "DATABASE_URL or --database-url to the URL");
        refused(run(args).env("DATABASE_URL", format!("sqlite://{url}")), "another URL");
        refused(run(args).env("DATABASE_URL", format!("'{url}'")), "quotation mark");
    }
    let sqlite = || run(&["run"]).env("DATABASE_URL", "sqlite://jobs.db");
    for name in ["JOBS_QUEUES", "JOBS_ENVIRONMENT", "JOBS_VERSION", "JOBS_LISTEN", "JOBS_SLOTS"] {
        refused(sqlite().env(name, url), &format!("{name}: the value is a URL"));
    }
    let in_options =
        [&["import"][..], &["migrations", "copy"], &["man", "--dir"], &["bench", "--svg"], &["run", "--lease"]];
    for args in in_options {
        refused(run(args).args([url]).env("DATABASE_URL", "sqlite://jobs.db"), "set DATABASE_URL");
    }
    refused(run(&["run", "--environment", url]).env("DATABASE_URL", "sqlite://jobs.db"), "s");
}

#[test]
fn a_file_may_name_sqlite_and_come_from_env() {
    let dir = Scratch::new();
    fs::write(dir.path().join("url"), "sqlite://jobs.db\n").unwrap();
    fs::write(dir.path().join(".env"), "DATABASE_URL_FILE=url\n").unwrap();
    let run = |args: &[&str]| worker("fixture-worker").args(args).in_dir(dir.path());
    run(&["migrate"]).run().succeeded().complained(&["using the SQLite file jobs.db (DATABASE_URL_FILE=url in "]);
    run(&["list"]).run().succeeded();
    // The variables of the environment take precedence over the file `.env`.
    run(&["list"]).env("DATABASE_URL", "sqlite://other.db").run().exited(4).complained(&["other.db"]);
    let both = run(&["list"]).env("DATABASE_URL", "sqlite://other.db").env("DATABASE_URL_FILE", "url");
    both.run().exited(2).complained(&["DATABASE_URL and DATABASE_URL_FILE are both set"]);
    let options = ["list", "--database-url", "sqlite://jobs.db", "--database-url-file", "url"];
    run(&options).run().exited(2).complained(&["--database-url and --database-url-file are both set"]);
}
