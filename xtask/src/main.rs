//! The project's own tool. People and CI run everything through `cargo xtask`.
//!
//! One subcommand per file. Each prints every command before it runs it. On failure it prints how to fix it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a terminal")]

mod bench;
mod browser;
mod doc;
mod features;
mod lint;
mod package;
mod pages;
mod pg;
mod screenshots;
mod test;
mod tidy;
mod torture;
mod versions;
mod watch;

use std::{
    iter,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use cluster::run;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up, tests, lints and house rules of the workspace")]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run all tests on real databases, after doing all the set-up they need
    Test(test::Options),
    /// Note a test program for `test`, which runs it later
    #[command(hide = true)]
    Record(test::Record),
    /// Run the conformance suite on every supported major version of PostgreSQL
    Versions(versions::Options),
    /// Check formatting, clippy, dependencies and the house rules
    Lint,
    /// Check the house rules over the files in git
    Tidy,
    /// Check that every sensible combination of Cargo features compiles
    Features,
    /// Build the documentation, warnings denied
    Doc,
    /// Pack what is published, and run an application on the packed files
    Package,
    /// Run everything that has bounds of time, all mutants, and all versions of PostgreSQL
    Watch(watch::Options),
    /// Measure everything beside hand-written SQL, and write PERFORMANCE.md's tables and charts
    Bench(bench::Options),
    /// Measure each page of the dashboard and each command beside millions of jobs
    Pages(pages::Options),
    /// Take the pictures of the dashboard for the guide and the README
    Screenshots,
    /// Kill, stop, cut and crash everything around real workers, and see what holds
    Torture(torture::Options),
    /// Run the tests' PostgreSQL by hand
    Pg {
        #[command(subcommand)]
        verb: pg::Verb,
    },
}

fn main() -> ExitCode {
    match execute(&root(), Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one of its own commands.
fn perform<'a>(root: &Path, command: impl Iterator<Item = &'a str>) -> Result<()> {
    execute(root, Cli::try_parse_from(iter::once("cargo xtask").chain(command))?)
}

fn execute(root: &Path, cli: Cli) -> Result<()> {
    match cli.command {
        Verb::Test(options) => test::run(root, &options),
        Verb::Record(program) => test::record(&program),
        Verb::Versions(options) => versions::run(root, &options),
        Verb::Lint => lint::run(root),
        Verb::Tidy => tidy::run(root),
        Verb::Features => features::run(root),
        Verb::Doc => doc::run(root),
        Verb::Package => package::run(root),
        Verb::Watch(options) => watch::run(root, &options),
        Verb::Bench(options) => bench::run(root, &options),
        Verb::Pages(options) => pages::run(root, &options),
        Verb::Screenshots => screenshots::run(root),
        Verb::Torture(options) => torture::run(root, &options),
        Verb::Pg { verb } => pg::run(root, &verb),
    }
}

/// Returns the workspace's directory. It is read at run time, because clones may share one build cache and therefore
/// one binary.
fn root() -> PathBuf {
    let here =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}
