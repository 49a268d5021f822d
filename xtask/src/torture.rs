//! `cargo xtask torture`: builds the release worker, kills, stops and cuts off processes around it, and reports which
//! guarantees held.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use crate::run::{cargo, run as execute};

#[derive(Args)]
pub(crate) struct Options {
    /// Run this test only, such as `kill-storm`; may be given several times [default: all]
    #[arg(long = "test", value_name = "NAME")]
    tests: Vec<String>,
    /// The short forms, as the tests have them
    #[arg(long)]
    short: bool,
    /// Print bounds of time that do not hold, and do not judge them
    #[arg(long)]
    untimed: bool,
    /// Run each test on its mutants instead, to which it must object
    #[arg(long)]
    mutants: bool,
    /// Run the tests on this mutant only
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    /// Repeat each test, each time with another seed, for this many minutes
    #[arg(long, value_name = "M", conflicts_with = "jobs")]
    minutes: Option<u64>,
    /// How many jobs each test enqueues, if it enqueues a given number
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// What the load and the choice of victims are made from, as a failed run printed it
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Keep logs and databases of tests that hold, too
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let postgres = cluster::ensure()?;
    let program = |arguments: &[&str]| {
        let mut command = cargo(root);
        command.args(arguments).args(["--release", "--package", "jobs-torture"]);
        command.env("JOBS_TEST_PG_BIN", &postgres.bin);
        if let Some(dir) = &postgres.libpq {
            command.env("PQ_LIB_DIR", dir);
        }
        command
    };
    execute(&mut program(&["build"]), "correct the errors that the compiler names above")?;
    execute(
        program(&["run", "--quiet"]).arg("--").args(arguments(options)),
        "what broke, with the history of a job, stands above; the line that begins with `again` repeats it",
    )
}

fn arguments(options: &Options) -> Vec<String> {
    let Options { tests, short, untimed, mutants, mutant, minutes, jobs, seed, keep } = options;
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
    };
    tests.iter().for_each(|test| add("test", Some(test.clone())));
    add("mutant", mutant.clone());
    add("minutes", minutes.map(|minutes| minutes.to_string()));
    add("jobs", jobs.map(|jobs| jobs.to_string()));
    add("seed", seed.map(|seed| seed.to_string()));
    words.extend(short.then(|| "--short".to_owned()));
    words.extend(untimed.then(|| "--untimed".to_owned()));
    words.extend(mutants.then(|| "--mutants".to_owned()));
    words.extend(keep.then(|| "--keep".to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_suite_as_they_were_given() {
        let tests = ["zombies", "deploys"].map(String::from).to_vec();
        let (short, untimed, mutants, keep) = (true, true, true, false);
        let mutant = Some("no-fence".to_owned());
        let options =
            Options { tests, short, untimed, mutants, mutant, minutes: None, jobs: Some(7), seed: Some(9), keep };
        let line = arguments(&options).join(" ");
        assert_eq!(
            line,
            "--test zombies --test deploys --mutant no-fence --jobs 7 --seed 9 --short --untimed --mutants"
        );
    }
}
