//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Kills, stops, cuts and crashes everything around real workers, and looks for what was lost or done twice.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask torture")]
pub(crate) struct Options {
    /// Run these tests only; without it, all
    #[arg(long = "test", value_name = "NAME")]
    pub(crate) tests: Vec<String>,
    /// The short forms, as continuous integration runs them
    #[arg(long)]
    pub(crate) short: bool,
    /// Print bounds of time that do not hold, and do not judge them
    #[arg(long)]
    pub(crate) untimed: bool,
    /// Run each test on its mutants instead, to which it must object
    #[arg(long)]
    pub(crate) mutants: bool,
    /// Run the tests on this mutant only
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
    /// Repeat each test, each time with another seed, for this many minutes
    #[arg(long, value_name = "M", conflicts_with = "jobs")]
    pub(crate) minutes: Option<u64>,
    /// How many jobs each test enqueues, if it enqueues a given number
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// What the load and the choice of victims are made from [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Keep logs and databases of tests that hold, too
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where the cluster and the logs are
    #[arg(long, value_name = "DIR", default_value = "target/torture")]
    pub(crate) dir: PathBuf,
}
