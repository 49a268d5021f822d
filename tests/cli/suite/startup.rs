//! What keeps a worker from starting. Each case has a message of one line, and an exit code that a supervisor can
//! distinguish.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::support::{Db, worker};

/// No server listens on port 1.
const NOBODY: &str = "postgres://me:s3cret@127.0.0.1:1/app";

/// The advice if no server has answered.
const IS_IT_UP: &str = "check that the server is up";

#[test]
fn an_unreachable_server_ends_every_command_with_3_and_one_line_of_error() {
    let id = ["7"];
    for args in [&["run"][..], &["doctor"], &["migrate"], &["migrate", "status"], &["list"], &["stats"]] {
        unreachable(args);
    }
    for command in ["show", "retry", "cancel"] {
        unreachable(&[&[command], &id[..]].concat());
    }
}

fn unreachable(args: &[&str]) {
    let run = worker("fixture-worker").args(args).env("DATABASE_URL", NOBODY).run();
    let run = run.exited(3).complained(&["database app at 127.0.0.1:1", "refused", IS_IT_UP]).never_said("s3cret");
    // The first line names the database.
    assert_eq!((run.stderr.lines().count(), &*run.stdout), (2, ""), "{run:#?}");
    assert!(run.stderr.lines().last().unwrap().starts_with("error: "), "{run:#?}");
}

/// Servers translate the severity of an error, too.
#[test]
fn a_server_that_refuses_is_up_in_every_language() {
    for severity in ["FATAL", "ВАЖНО"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://me@{}/app?sslmode=disable", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let fields = format!("S{severity}\0VFATAL\0C57P03\0Mthe system is starting up\0\0");
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Reads the request of the client, and refuses it.
                assert!(stream.read(&mut [0; 1000]).unwrap() > 0);
                stream.write_all(b"E").unwrap();
                stream.write_all(&(fields.len() as u32 + 4).to_be_bytes()).unwrap();
                stream.write_all(fields.as_bytes()).unwrap();
            }
        });
        let run = worker("fixture-worker").args(["stats"]).env("DATABASE_URL", url).run().exited(3);
        run.complained(&["the system is starting up", "database app at 127.0.0.1"]).never_said(IS_IT_UP);
    }
}

#[test]
fn a_role_that_may_not_connect_says_what_to_grant() {
    let db = Db::postgres();
    let name = db.url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let role = name.replace("test", "role");
    db.execute(&format!("revoke connect on database {name} from public; create role {role} login"));
    let run = worker("fixture-worker").args(["stats"]).env("DATABASE_URL", db.url_as(&role)).run();
    db.execute(&format!("drop role {role}"));
    run.exited(3).complained(&["permission denied for database", "grant connect on database"]).never_said(IS_IT_UP);
}

#[test]
fn a_byte_order_mark_before_a_url_is_skipped() {
    let db = Db::sqlite().migrated();
    let url = format!("\u{feff}{}", db.url);
    let file = db.file().with_extension("url");
    std::fs::write(&file, format!("{url}\n")).unwrap();
    worker("fixture-worker").args(["stats"]).env("DATABASE_URL", &url).run().succeeded();
    worker("fixture-worker").args(["stats"]).env("DATABASE_URL_FILE", &file).run().succeeded();
    worker("fixture-worker").args(["stats", "--database-url", &url]).run().succeeded();
}

on_each_database! {
    fn a_missing_schema_says_what_to_run(db) {
        for args in [&["run"][..], &["list"], &["stats"], &["show", "1"], &["retry", "1"], &["cancel", "1"]] {
            db.run(args).exited(4).complained(&["missing", "worker migrate"]);
        }
    }

    fn only_migrate_creates_a_sqlite_file(db) {
        if let Some(file) = db.url.strip_prefix("sqlite://") {
            let does_not_exist = || assert!(!std::path::Path::new(file).exists());
            for args in [&["run"][..], &["list"], &["doctor"], &["migrate", "down"], &["freeze", "--reason", "x"]] {
                let run = db.run(args).exited(4);
                assert!((run.stdout + &run.stderr).contains("is missing"), "{args:?}");
                does_not_exist();
            }
            db.run(&["migrate", "status"]).succeeded();
            does_not_exist();
            db.run(&["migrate"]).exited(0);
            db.run(&["list"]).exited(0);
        }
    }

    fn an_older_schema_says_what_to_run(db) {
        let db = db.migrated();
        db.execute("update jobs.schema_migration set version = version - 1");
        db.run(&["run"]).exited(4).complained(&["version 0 and lacks 0001_jobs", "worker migrate"]);
    }

    fn a_newer_schema_asks_for_a_newer_program(db) {
        let db = db.migrated();
        db.execute("insert into jobs.schema_migration (version, name) values (99, 'future')");
        db.run(&["run"]).exited(4).complained(&["version 99", "newer"]);
        db.run(&["migrate"]).exited(4).complained(&["version 99"]);
    }

    fn a_lease_too_short_to_keep_is_refused(db) {
        let db = db.migrated();
        db.run(&["--lease", "20ms"]).exited(2).complained(&["lease", "1s"]);
    }
}

#[track_caller]
fn refused(binary: &str, parts: &[&str]) {
    ends_with(binary, 2, parts);
}

#[track_caller]
fn ends_with(binary: &str, code: i32, parts: &[&str]) {
    let db = Db::sqlite().migrated();
    worker(binary).env("DATABASE_URL", &db.url).run().exited(code).complained(parts);
}

#[test]
fn a_worker_without_jobs_says_how_to_link_them() {
    refused("bare-worker", &["no job is registered", "use my_app as _;"]);
}

#[test]
fn a_missing_state_is_named_with_the_job_that_takes_it() {
    refused("stateless-worker", &["`greet`", "Greeting", "given no state at all", ".state(..)"]);
}

#[test]
fn an_alias_of_two_jobs_is_refused_with_both_places() {
    let said =
        ["`greet` is an alias of job `ambiguous_worker::", "also an alias of `ambiguous_worker::", "remove the alias"];
    refused("ambiguous-worker", &said);
}

#[test]
fn a_set_up_that_fails_says_so_in_its_own_words() {
    // It may succeed later, for example when another service is up.
    ends_with("broken-worker", 1, &["set-up failed", "certificate is missing"]);
}
