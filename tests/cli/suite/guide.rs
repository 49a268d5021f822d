//! The guide's page on operating: its commands are run in a shell, on a database like the one that it describes, and their outputs are
//! compared with the page. `UPDATE_EXPECTED=1` writes the real outputs into the page.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Db, Running, Scratch, worker};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/operating.md")
}

/// A part of the page.
#[derive(Debug)]
enum Part {
    Text(String),
    /// A command of a console block, without the prompt, and its output.
    Command(String, String),
}

fn parts(page: &str) -> Vec<Part> {
    let (mut parts, mut in_console) = (Vec::new(), false);
    for line in page.split_inclusive('\n') {
        match line.trim_end() {
            "```console" => in_console = true,
            "```" => in_console = false,
            _ => {}
        }
        match (line.strip_prefix("$ "), parts.last_mut()) {
            (Some(command), _) if in_console => parts.push(Part::Command(command.trim_end().to_owned(), String::new())),
            (_, Some(Part::Command(_, output))) if in_console => output.push_str(line),
            (_, Some(Part::Text(text))) => text.push_str(line),
            _ => parts.push(Part::Text(line.to_owned())),
        }
    }
    parts
}

/// The text without what differs from run to run: times, ids of workers, durations, and how wide columns are.
fn normal(output: &str) -> Vec<Vec<String>> {
    output.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

fn word(word: &str) -> String {
    let digits: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_time = digits.starts_with("0000-00-00") || digits.starts_with("00:00:00");
    let is_id = word.len() == 36 && word.chars().filter(|c| *c == '-').count() == 4;
    if is_time || is_id { "#".to_owned() } else { word.to_owned() }
}

/// Whether the numbers of a command's output depend on the machine and on the order in which jobs end.
fn is_measured(command: &str) -> bool {
    ["worker stats", "worker failures", "worker why", "worker show"].iter().any(|name| command.starts_with(name))
}

/// What is compared of an output.
fn compared(command: &str, output: &str) -> Vec<Vec<String>> {
    let mut lines = normal(output);
    if !is_measured(command) {
        return lines;
    }
    if command == "worker stats" {
        // Rates are shown as soon as a minute is over.
        lines.truncate(lines.iter().position(Vec::is_empty).unwrap_or(lines.len()));
    }
    for line in &mut lines {
        line.retain(|word| !["ms", "s", "min", "h", "d"].contains(&word.as_str()));
        line.iter_mut()
            .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
            .for_each(|word| "#".clone_into(word));
        line.dedup();
    }
    lines
}

/// 50,000 jobs: 3,000 that failed, 20,000 that completed, and 27,000 of which two run. Returns the worker.
fn an_evening(db: &Db) -> Running {
    db.enqueue_many_with("charge", "default", 2000, r#"{"card": "4000"}"#);
    db.enqueue_many_with("log_in", "default", 1000, r#"{"user": "ada", "password": "hunter2"}"#);
    db.execute("update jobs.ready set max_attempts = 1");
    db.enqueue_many_with("write", "default", 20_000, r#"{"length": 0}"#);
    let start = |queues: &str| {
        let worker = worker("fixture-worker").args(["--queues", queues, "--poll", "100ms"]);
        worker.env("DATABASE_URL", &db.url).env("RUST_BACKTRACE", "0").start()
    };
    let worker = start("default=50");
    await_count(db, &["--state", "available,running"], 0);
    worker.signal("TERM");
    worker.ended(Duration::from_secs(20)).succeeded();
    if is_writing() {
        // So that the page shows rates.
        std::thread::sleep(Duration::from_secs(75));
    }
    db.enqueue_many_with("send_newsletter", "mail", 27_000, r#"{"list": "customers"}"#);
    let worker = start("default=4,mail=2");
    await_count(db, &["--state", "running"], 2);
    // What it has prefetched, it gives back.
    std::thread::sleep(Duration::from_secs(3));
    await_count(db, &["--state", "running"], 2);
    worker
}

/// Waits until this many jobs match.
fn await_count(db: &Db, filter: &[&str], jobs: u64) {
    let begun = Instant::now();
    while db.json(&[&["list", "--count"], filter].concat())["jobs"] != jobs {
        assert!(begun.elapsed() < Duration::from_secs(300), "there are never {jobs} jobs with {filter:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn is_writing() -> bool {
    std::env::var_os("UPDATE_EXPECTED").is_some()
}

/// Runs a command line in a shell. Returns what it printed, without the line that names the database.
fn run(db: &Db, dir: &Path, command: &str) -> String {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(dir)
        .envs([("PATH", path.as_str()), ("DATABASE_URL", &db.url), ("USER", "ada"), ("SUDO_USER", "")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_inclusive('\n').filter(|line| !line.starts_with("using ")).collect()
}

#[test]
fn the_page_on_operating_shows_real_outputs() {
    let db = Db::postgres().migrated();
    let mut worker = an_evening(&db);
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_fixture-worker"), scratch.path().join("bin/worker")).unwrap();
    let (mut real, mut differences) = (String::new(), Vec::new());
    for part in parts(&fs::read_to_string(page()).unwrap()) {
        let (command, shown) = match part {
            Part::Text(text) => {
                real.push_str(&text);
                continue;
            }
            Part::Command(command, shown) => (command, shown),
        };
        real.push_str(&format!("$ {command}\n"));
        let output = run(&db, scratch.path(), &command);
        if compared(&command, &shown) != compared(&command, &output) {
            differences.push(format!("$ {command}\n{output}-- and the page shows:\n{shown}"));
        }
        real.push_str(&output);
    }
    worker.kill();
    if is_writing() {
        fs::write(page(), real).unwrap();
        return;
    }
    assert!(differences.is_empty(), "UPDATE_EXPECTED=1 writes the page anew:\n{}", differences.join("\n"));
}
