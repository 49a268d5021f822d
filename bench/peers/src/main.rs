//! Runs the same measures with `diesel-jobs` and other job queues for Rust, each with the best settings that its
//! documentation names. The systems run in turns and on databases of their own, so that the figures of one run are
//! comparable.
//!
//! ```text
//! DATABASE_URL=postgres://.. cargo run --release --manifest-path bench/peers/Cargo.toml -- all
//! ```
//!
//! Workers are separate processes: the program starts itself again. In the worker process, the handlers count the jobs.
//! Afterwards the system's own tables must show that every job is done.

mod args;
mod child;
mod database;
mod gate;
mod handler;
mod interrupt;
mod measures;
mod name;
mod report;
mod stats;
mod system;
mod systems;
mod versions;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, WORKER, WorkerArgs};

#[tokio::main]
async fn main() -> ExitCode {
    // All systems use the same runtime: a thread per core. Their documentation uses `#[tokio::main]` too.
    let done = if std::env::args().nth(1).is_some_and(|word| word == WORKER) {
        worker::run(WorkerArgs::parse_from(std::env::args().skip(1))).await
    } else {
        measures::run(Args::parse()).await
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            report::complain(&problem);
            ExitCode::FAILURE
        }
    }
}
