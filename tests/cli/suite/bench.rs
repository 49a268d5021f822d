//! `bench` measures, and removes everything that it created, however it ends.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Db, Running, Scratch, until, worker};

/// The schema or directory of the load test.
struct Place<'a>(&'a Db);

impl Place<'_> {
    /// The directory, on SQLite.
    fn directory(&self) -> Option<PathBuf> {
        Some(format!("{}.jobs_bench", self.0.url.strip_prefix("sqlite://")?).into())
    }

    fn exists(&self) -> bool {
        match self.directory() {
            Some(directory) => directory.exists(),
            None => self.0.count("pg_namespace where nspname = 'jobs_bench'") == 1,
        }
    }

    #[track_caller]
    fn is_gone(&self) {
        assert!(!self.exists(), "left behind");
    }

    /// Creates a schema or directory of the same name with other content.
    fn make_foreign(&self) {
        match self.directory() {
            Some(directory) => {
                fs::create_dir(&directory).unwrap();
                fs::write(directory.join("thesis.txt"), "ten years of work").unwrap();
            }
            None => self.0.execute("create schema jobs_bench; create table jobs_bench.thesis (page text)"),
        }
    }

    fn foreign_is_whole(&self) -> bool {
        match self.directory() {
            Some(directory) => directory.join("thesis.txt").exists(),
            None => self.0.count("pg_tables where schemaname = 'jobs_bench' and tablename = 'thesis'") == 1,
        }
    }
}

/// Starts a long load test, which prints its steps on standard error. Waits until one step is measured.
fn started(db: &Db, scratch: &Scratch) -> Running {
    let mut bench = worker("fixture-worker")
        .args(["bench", "--yes", "--time", "60s", "--connections", "2", "--processes", "2"])
        .env("DATABASE_URL", &db.url)
        .env("RUST_LOG", "diesel_jobs=info")
        .in_dir(scratch.path())
        .start();
    bench.await_line("1 connection: ");
    assert!(Place(db).exists());
    bench
}

on_each_database! {
    fn a_short_test_measures_and_leaves_nothing_behind(db) {
        let db = db.migrated();
        let scratch = Scratch::new();
        let id = db.enqueue(fixture_app::Wait { millis: 1 });
        let bench = ["bench", "--yes", "--time", "5s", "--connections", "2", "--processes", "2", "--slots", "9"];
        let run = worker("fixture-worker").args(bench).env("DATABASE_URL", &db.url).in_dir(scratch.path()).run().succeeded();
        for part in ["LOAD ", "enqueue one by one, 1 connection ", "enqueue batches of ", "work, 1 process ", "<- enough", "9 jobs at once", "What limits: "] {
            assert!(run.stdout.contains(part), "{part:?} is missing: {run:#?}");
        }
        let chart = scratch.path().join("jobs-bench.svg");
        assert!(run.stdout.trim_end().ends_with(&format!("chart: {}", chart.canonicalize().unwrap().display())), "{run:#?}");
        assert!(fs::read_to_string(chart).unwrap().starts_with("<svg"));
        assert_eq!(run.stderr.lines().count(), 1, "nothing is drawn where nobody looks: {run:#?}");
        assert!(run.stderr.starts_with("using "), "{run:#?}");
        Place(&db).is_gone();
        assert_eq!(db.json(&["show", &id.to_string()])["state"], "available", "the user's jobs are left alone");
    }

    fn json_has_every_figure(db) {
        let scratch = Scratch::new();
        let chart = scratch.path().join("chart.svg");
        let bench = ["bench", "--json", "--yes", "--time", "5s", "--connections", "1", "--processes", "1"];
        let shape = ["--work", "50ms", "--args", "1KiB", "--fail", "10%", "--svg"];
        let run = worker("fixture-worker").args(bench).args(shape).args([&chart]).env("DATABASE_URL", &db.url).run().succeeded();
        let report = run.json();
        assert!(chart.exists() && report["svg"].as_str().unwrap().ends_with("chart.svg"));
        assert!(report["commit_ms"].as_f64().unwrap() > 0.0);
        assert_eq!(report["shape"], serde_json::json!({ "work_ms": 50, "args_bytes": 1024, "fail": 0.1 }));
        for series in ["enqueue", "batches", "work"] {
            let steps = report[series]["steps"].as_array().unwrap();
            assert!(report[series]["knee"].as_u64().unwrap() < steps.len() as u64);
            for step in steps {
                assert!(step["jobs_per_second"].is_f64(), "{report}");
                assert!(step["pickup"]["p99_ms"].as_f64() >= step["pickup"]["p50_ms"].as_f64(), "{report}");
            }
        }
        assert!(report["advice"].as_array().unwrap().iter().all(Value::is_string));
        Place(&db).is_gone();
    }

    fn a_signal_in_the_middle_leaves_nothing_behind(db) {
        let scratch = Scratch::new();
        let bench = started(&db, &scratch);
        bench.signal("INT");
        bench.ended().exited(1).complained(&["stopped by SIGINT before the end"]);
        Place(&db).is_gone();
        assert!(!scratch.path().join("jobs-bench.svg").exists());
    }

    fn what_a_killed_test_left_is_removed_by_the_next(db) {
        let scratch = Scratch::new();
        started(&db, &scratch).kill();
        assert!(Place(&db).exists(), "nobody was there to remove it");
        let bench = started(&db, &scratch);
        bench.signal("TERM");
        bench.ended().exited(1).complained(&["SIGTERM"]);
        Place(&db).is_gone();
    }

    fn a_second_test_at_the_same_time_is_refused_and_harms_nothing(db) {
        let scratch = Scratch::new();
        let first = started(&db, &scratch);
        db.run(&["bench", "--yes"]).exited(1).complained(&["another load test", "wait for its end"]);
        assert!(Place(&db).exists());
        first.signal("INT");
        first.ended().exited(1);
        Place(&db).is_gone();
    }

    fn a_foreign_schema_or_directory_is_refused_and_left_alone(db) {
        let place = Place(&db);
        place.make_foreign();
        db.run(&["bench", "--yes"]).exited(1).complained(&["jobs_bench", "was not made by this command"]);
        assert!(place.foreign_is_whole());
    }

    fn invalid_options_are_refused_before_anything_is_created(db) {
        db.run(&["bench", "--time", "4s"]).exited(2).complained(&["\"4s\" is too short", "5s or more"]);
        db.run(&["bench", "--work", "20"]).exited(2).complained(&["number without a unit", "20s"]);
        db.run(&["bench", "--args", "4MiB"]).exited(2).complained(&["\"4MiB\"", "500 or 4KiB"]);
        db.run(&["bench", "--fail", "1"]).exited(2).complained(&["\"1\" is not a share", "1%"]);
        db.run(&["bench", "--processes", "0"]).exited(2).complained(&["whole number from 1"]);
        db.run(&["bench", "--svg", "no/such/directory/chart.svg"]).exited(2).complained(&["a directory that exists"]);
        Place(&db).is_gone();
    }
}

/// The connections that rename the schema connect to the server with code of their own, with TLS and without.
#[test]
fn the_urls_sslmode_counts() {
    let db = Db::postgres();
    // A short way to see that a connection works: this error comes from the server.
    Place(&db).make_foreign();
    let on = |parameters: &str| {
        let url = format!("{}&{parameters}", db.url.replace("@127.0.0.1:", "@localhost:"));
        worker("fixture-worker").args(["bench", "--yes"]).env("DATABASE_URL", url).run()
    };
    let authority = std::env::var("JOBS_TEST_CA").unwrap();
    for works in ["sslmode=disable", "sslmode=require", &format!("sslmode=verify-full&sslrootcert={authority}")] {
        on(works).exited(1).complained(&["was not made by this command"]);
    }
    on("sslmode=verify-full").exited(3).complained(&["certificate"]);
}

#[test]
fn other_load_on_the_server_is_refused() {
    let db = Db::postgres();
    // The load is in another database, because all databases of the server share its disk and its processors.
    let other = Db::postgres();
    other.execute_in_background("select pg_sleep(3600)");
    other.await_sleep();
    db.run(&["bench"]).exited(1).complained(&["others are using this database's server", "--yes"]);
    Place(&db).is_gone();
}

/// A process of a killed test may still execute statements.
#[test]
fn a_deadlock_with_what_still_uses_the_schema_is_passed_over() {
    let db = Db::postgres();
    let scratch = Scratch::new();
    started(&db, &scratch).kill();
    db.execute("create table jobs_bench.one (); create table jobs_bench.other ()");
    // The next test waits for the one table with the lock of the schema, then this session for the schema, and then the
    // test for the other table.
    db.execute_in_background(
        "begin; set local deadlock_timeout = '1h'; lock table jobs_bench.other;
         do $$ begin
             while not exists (select from pg_locks where relation = 'jobs_bench.one'::regclass and not granted) loop
                 perform pg_sleep(0.01);
             end loop;
         end $$;
         create table jobs_bench.third (); commit",
    );
    db.execute_in_background(
        "begin; lock table jobs_bench.one;
         do $$ begin
             while not exists (
                 select from pg_locks where classid = 'pg_namespace'::regclass and objid = 'jobs_bench'::regnamespace and not granted
             ) loop
                 perform pg_sleep(0.01);
             end loop;
         end $$;
         commit",
    );
    until(|| {
        let locked = "pg_locks where relation in ('jobs_bench.one'::regclass, 'jobs_bench.other'::regclass)";
        (db.count(locked) == 2).then_some(()).ok_or("a table is not locked")
    });
    let bench = started(&db, &scratch);
    bench.signal("TERM");
    bench.ended().exited(1).complained(&["SIGTERM"]);
    Place(&db).is_gone();
}

#[test]
fn a_sqlite_file_that_is_written_to_is_refused() {
    let db = Db::sqlite().migrated();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                db.enqueue(fixture_app::Wait { millis: 1 });
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let run = db.run(&["bench"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        run.exited(1).complained(&["others are using", "--yes"]);
    });
    Place(&db).is_gone();
}

#[test]
fn a_missing_right_says_what_to_grant() {
    let db = Db::postgres();
    let role = db.url.rsplit('/').next().unwrap().split('?').next().unwrap().replace("test", "role");
    db.execute(&format!("create role {role} login"));
    let run = worker("fixture-worker").args(["bench", "--yes"]).env("DATABASE_URL", db.url_as(&role)).run();
    db.execute(&format!("drop role {role}"));
    run.exited(1).complained(&["may not create it", "grant create on database", &role]);
}

#[test]
fn a_server_or_database_that_is_not_there_is_named() {
    let nobody = "postgres://me:s3cret@127.0.0.1:1/app";
    let run = worker("fixture-worker").args(["bench"]).env("DATABASE_URL", nobody).run();
    run.exited(3).complained(&["database app at 127.0.0.1:1", "refused"]).never_said("s3cret");
    let db = Db::postgres();
    let missing = db.url.replace("jobs_cli_test", "jobs_no_such");
    let run = worker("fixture-worker").args(["bench"]).env("DATABASE_URL", missing).run();
    run.exited(3).complained(&["does not exist", "createdb"]);
}
