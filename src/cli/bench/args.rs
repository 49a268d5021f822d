//! The options of the load test.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};

use super::shape::{self, Shape};
use crate::cli::duration;
use crate::cli::parse::{path, positive};

/// The shortest test in which each series gets at least one step.
const SHORTEST: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(in crate::cli) struct BenchArgs {
    /// How long it may take, at least 5s; it ends earlier once nothing grows
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time)]
    pub(super) time: Duration,
    /// The most worker processes to try [default: twice the processors of this machine, 16 at most]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) processes: Option<usize>,
    /// The most connections to enqueue through
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub(super) connections: usize,
    /// Jobs at once in each worker process [env: JOBS_SLOTS] [default: 16]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) slots: Option<usize>,
    /// How long the handler of each job sleeps
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = duration::parse)]
    pub(super) work: Duration,
    /// How long the arguments of each job are, in bytes or KiB; 64KiB at most
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = shape::bytes)]
    pub(super) args: usize,
    /// Which part of the jobs fails at its first attempt
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = shape::share)]
    pub(super) fail: f64,
    /// Where to write the chart
    #[arg(long, value_name = "FILE", default_value = "jobs-bench.svg", value_parser = PathBufValueParser::new().try_map(path))]
    pub(super) svg: PathBuf,
    /// Start even if others are using the database's server
    #[arg(long)]
    pub(super) yes: bool,
}

impl BenchArgs {
    /// Returns the shape of each job.
    pub(super) fn shape(&self) -> Shape {
        Shape { work: self.work, args: self.args, fail: self.fail }
    }
}

/// What `bench` tells the processes that it starts.
#[derive(Debug, Args)]
pub(in crate::cli) struct WorkArgs {
    /// Jobs at once
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) slots: usize,
}

fn time(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time < SHORTEST {
        return Err(format!("{text:?} is too short to measure anything; write {}s or more", SHORTEST.as_secs()));
    }
    Ok(time)
}
