//! Which database is used: from the option, the environment, or a file `.env`. And the messages about that.

use std::fs;

use crate::support::{Run, Scratch, worker};

#[track_caller]
fn with_file(scratch: &Scratch, text: &str, args: &[&str]) -> Run {
    fs::write(scratch.path().join(".env"), text).unwrap();
    worker("fixture-worker").args(args).in_dir(scratch.path()).run()
}

on_each_database! {
    fn a_file_names_the_database_and_the_password_is_never_said(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        let run = with_file(&scratch, &format!("# mine\nDATABASE_URL='{}'\n", db.url_with_password()), &["stats"]);
        let file = fs::canonicalize(scratch.path()).unwrap().join(".env");
        run.succeeded().complained(&["using ", &format!("(DATABASE_URL in {})", file.display())]).never_said("s3cret");
    }

    fn the_environment_and_the_option_win_over_the_file(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        fs::write(scratch.path().join(".env"), "DATABASE_URL=postgres://me:s3cret@127.0.0.1:1/wrong\n").unwrap();
        let run = || worker("fixture-worker").args(["stats"]).in_dir(scratch.path());
        run().env("DATABASE_URL", &db.url).run().succeeded().complained(&["(DATABASE_URL)"]).never_said("wrong");
        run().args(["--database-url", &db.url]).run().succeeded().complained(&["(--database-url)"]).never_said("wrong");
        run().run().exited(3).complained(&["database wrong at 127.0.0.1:1", ".env"]).never_said("s3cret");
    }

    fn json_comes_without_other_output(db) {
        let db = db.migrated();
        assert_eq!(db.run(&["stats", "--json"]).succeeded().stderr, "");
    }

    fn a_worker_logs_its_database_before_anything_else(db) {
        let db = db.migrated();
        let mut running = db.start(&["--log", "json"]);
        running.await_line("worker started");
        running.signal("TERM");
        let run = running.ended().succeeded();
        let first = run.stderr.lines().next().unwrap();
        assert!(first.starts_with('{') && first.contains("using "), "{run:#?}");
    }
}

#[test]
fn a_file_above_is_found_and_its_other_variables_count() {
    let scratch = Scratch::new();
    let inner = scratch.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    // A directory of this name is ignored.
    fs::create_dir(scratch.path().join("a/.env")).unwrap();
    fs::write(scratch.path().join(".env"), "DATABASE_URL=sqlite://jobs.db\nJOBS_POLL_INTERVAL=30\n").unwrap();
    let run = |args: &[&str]| worker("fixture-worker").args(args).in_dir(&inner).run();
    run(&["migrate"]).succeeded();
    assert!(inner.join("jobs.db").exists());
    run(&["run"]).exited(2).complained(&["JOBS_POLL_INTERVAL", "write 30s"]);
}

#[test]
fn a_malformed_file_is_refused_with_its_line_and_without_its_values() {
    let scratch = Scratch::new();
    let run = with_file(&scratch, "A=1\n\nDATABASE_URL=postgres://me:s3cret pass@db/app\n", &["stats"]);
    run.exited(2).complained(&[".env line 3", "NAME=value"]).never_said("s3cret").never_said("pass@");
    with_file(&scratch, "A=1\nA='s3cret\n", &["stats"]).exited(2).complained(&[".env line 2"]).never_said("s3cret");
    // The help needs no file.
    with_file(&scratch, "A=1\nA='s3cret\n", &["--help"]).succeeded();
}

#[test]
fn without_a_url_a_program_with_postgres_in_it_makes_no_file() {
    let scratch = Scratch::new();
    for args in [&["migrate"][..], &["run"], &[], &["stats"], &["doctor"], &["bench"]] {
        let run = worker("fixture-worker").args(args).in_dir(scratch.path()).run().exited(2);
        let run = run.complained(&[
            "DATABASE_URL is not set",
            "no file .env",
            "DATABASE_URL=postgres://",
            "DATABASE_URL=sqlite://",
        ]);
        assert_eq!((run.stderr.lines().count(), &*run.stdout), (1, ""), "{run:#?}");
    }
    with_file(&scratch, "OTHER=1\n", &["stats"]).exited(2).complained(&["nor in ", ".env"]);
    assert!(!scratch.path().join("jobs.db").exists());
}

#[test]
fn sql_to_print_or_copy_needs_a_url_or_the_backends_name() {
    let scratch = Scratch::new();
    for args in [&["migrations", "copy", "."][..], &["migrate", "sql"]] {
        let run = worker("fixture-worker").args(args).in_dir(scratch.path()).run();
        run.exited(2).complained(&["--backend postgres", "--backend sqlite", "DATABASE_URL"]);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
    worker("fixture-worker").args(["migrate", "roles"]).in_dir(scratch.path()).run().succeeded();
    fs::write(scratch.path().join(".env"), "DATABASE_URL=postgres://me:s3cret@127.0.0.1:1/app\n").unwrap();
    let run = worker("fixture-worker").args(["migrations", "copy", "."]).in_dir(scratch.path()).run().succeeded();
    run.complained(&["the schema for PostgreSQL"]);
    // The schemas of the two databases must not be confused.
    let up = scratch.path().join("0000-00-00-000001_jobs_0001_jobs/up.sql");
    assert!(fs::read_to_string(up).unwrap().contains("create schema jobs;"));
}
