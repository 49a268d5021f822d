//! The benchmark program: `jobs-bench MEASURE`.
//!
//! Every measure runs `diesel-jobs` as its users run it: worker processes, default settings, jobs enqueued through
//! Diesel connections. It alternates with the *raw baseline*: hand-written prepared statements on the same tables. The
//! baseline has the same batches, the same durability and the same history. The result is the ratio of the two. A rate
//! alone depends more on the disk than on the program.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a terminal")]

mod bench;
mod cli;
mod fleet;
mod homemade;
mod kinds;
mod measure;
mod observed;
mod raw;
mod report;
mod say;
mod server;
mod worker_process;

use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::Parser as _;

use crate::bench::Bench;
use crate::cli::{Cli, Measure, Options};
use crate::homemade::HomemadeArgs;
use crate::worker_process::WorkerArgs;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let done = if arguments.peek().is_some_and(|first| first == worker_process::COMMAND) {
        worker_process::main(&WorkerArgs::parse_from(arguments))
    } else if arguments.peek().is_some_and(|first| first == homemade::COMMAND) {
        homemade::main(&HomemadeArgs::parse_from(arguments))
    } else {
        start(Cli::parse())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(Cli { measure, options }: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(run(measure, options))
}

/// Runs the measures. At any end, including Ctrl-C, the worker processes are killed and the databases are dropped.
async fn run(measure: Measure, options: Options) -> Result<()> {
    if options.observed {
        let metrics = observed::metrics();
        diesel_jobs::metrics::record_enqueues(metrics.clone());
        diesel_jobs::metrics::record_actions(metrics);
    }
    let bench = Bench::open(options).await?;
    let done = tokio::select! {
        done = measure::run(&bench, measure) => done,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    bench.close().await;
    done
}
