//! Fuzzes the command line of the worker's own program.

use std::time::Duration;

use anyhow::Result;
use torture::process::Process;

use crate::role::Role;
use crate::suite::fixture::Fixture;

/// No server listens there.
const NOBODY: &str = "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1";
/// A process that runs for longer has accepted its command line.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) const SEEDS: &[&str] = &[
    "run --queues mail=10,default=50 --slots 16 --poll-interval 500ms --grace-period 30s --lease 30s",
    "migrate status",
    "migrate sql --backend postgres",
    "migrations copy . --backend sqlite",
    "list --state available --queue default --limit 5 --json",
    "show 1",
    "retry 1 2 3",
    "cancel 9223372036854775807",
    "stats --log json",
    "check --database-url postgres://user:secret@127.0.0.1:1/app?sslmode=require",
    "--help",
];
pub(super) const WORDS: &[&str] = &[
    "=",
    "--",
    "-",
    ",",
    " ",
    "0",
    "-1",
    "1e3",
    "99999999999999999999",
    "ms",
    "1h1h",
    "postgres://",
    "sqlite::memory:",
    "mysql://",
    "[::1]:1",
    "%00",
    "%",
    "@",
    ":secret@",
    "?sslmode=",
    "&options=-c",
    "\u{e9}",
    "\u{1F600}",
    "--yes",
    "--json",
    "--queues",
    "default=",
    "=1",
    "bench",
];

/// Returns what was wrong: a panic, or a password in the output.
pub(super) async fn complaint(fixture: &Fixture<'_>, input: &[u8]) -> Result<Option<String>> {
    // The arguments of a program cannot contain NUL.
    let line = String::from_utf8_lossy(input).replace('\0', "");
    let mut command = Role::Worker.command("")?;
    command
        .env("DATABASE_URL", NOBODY)
        .current_dir(fixture.logs())
        .args(line.split(' ').filter(|word| !word.is_empty()));
    let mut process = Process::start(command, fixture.logs().join("fuzzed.log"))?;
    let code = process.ended(LIMIT).await;
    let written = process.written()?;
    let panicked = written.contains("panicked at") || code.as_ref().is_ok_and(|code| !(0..=100).contains(code));
    Ok(if panicked {
        Some(format!("{line:?} ended with {code:?}:\n{written}"))
    } else if written.contains("secret")
        // Where no URL is expected, a URL is not recognised, and may be repeated.
        && line.split(' ').filter(|word| word.contains("secret")).all(|word| word.contains("://"))
        && !written.contains("unrecognized")
        && !written.contains("unexpected argument")
    {
        Some(format!("the password is repeated, at {line:?}:\n{written}"))
    } else {
        None
    })
}
