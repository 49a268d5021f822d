//! `migrations copy`: folders for Diesel's own migrations.

use std::fs;
use std::path::{Path, PathBuf};

use jobs::migrations::POSTGRES;

use crate::support::{Run, Scratch, worker};

fn copy(dir: &Path, more: &[&str]) -> Run {
    worker("fixture-worker").args(["migrations", "copy"]).args([dir]).args(more).run()
}

/// Returns the folder of the first version, after it has checked those of all versions.
fn first_folder(dir: &Path) -> PathBuf {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let folders: Vec<_> = POSTGRES.iter().map(|version| dir.join(version.folder())).collect();
    assert_eq!(entries, folders);
    entries.swap_remove(0)
}

#[test]
fn folders_are_written_once_and_found_again() {
    let scratch = Scratch::new();
    assert!(copy(scratch.path(), &["--backend", "postgres"]).succeeded().stdout.starts_with("wrote"));
    let folder = first_folder(scratch.path());
    assert_eq!(folder.file_name().unwrap().to_str().unwrap(), "0000-00-00-000001_jobs_0001_jobs");
    assert!(fs::read_to_string(folder.join("up.sql")).unwrap().contains("create schema jobs;"));
    assert!(fs::read_to_string(folder.join("down.sql")).unwrap().contains("drop schema jobs;"));

    assert!(copy(scratch.path(), &["--backend", "postgres"]).succeeded().stdout.starts_with("unchanged"));
    let report = copy(scratch.path(), &["--backend", "postgres", "--json"]).succeeded().json();
    assert_eq!(report[0]["written"], false);
    assert_eq!(report[0]["path"].as_str().unwrap(), folder.to_str().unwrap());
}

#[test]
fn the_url_decides_between_the_backends() {
    let scratch = Scratch::new();
    let run = worker("fixture-worker").args(["migrations", "copy"]).args([scratch.path()]);
    run.env("DATABASE_URL", "postgres://me@127.0.0.1:1/app").run().succeeded();
    let up = first_folder(scratch.path()).join("up.sql");
    assert!(fs::read_to_string(up).unwrap().contains("create schema jobs;"));
}

#[test]
fn files_that_differ_are_never_overwritten() {
    let scratch = Scratch::new();
    copy(scratch.path(), &["--backend", "sqlite"]).succeeded();
    let up = first_folder(scratch.path()).join("up.sql");
    fs::write(&up, "-- mine").unwrap();
    copy(scratch.path(), &["--backend", "sqlite"]).exited(1).complained(&["up.sql", "differs", "nothing was written"]);
    assert_eq!(fs::read_to_string(&up).unwrap(), "-- mine");
}

#[test]
fn a_directory_that_is_missing_is_created_and_a_file_in_its_place_is_named() {
    let scratch = Scratch::new();
    let new = scratch.path().join("db/migrations");
    assert!(copy(&new, &["--backend", "postgres"]).succeeded().stdout.starts_with("wrote"));
    first_folder(&new);
    let file = scratch.path().join("migrations");
    fs::write(&file, "").unwrap();
    copy(&file, &["--backend", "sqlite"]).exited(1).complained(&["migrations is not a directory"]);
}
