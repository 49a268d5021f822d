//! Runs the same measures against `diesel-jobs` and other job queues for Rust, each at its documented best settings, in turns
//! and on databases of their own, so that the figures of one run can be compared.
//!
//! ```text
//! DATABASE_URL=postgres://.. cargo run --release --manifest-path bench/peers/Cargo.toml -- all
//! ```
//!
//! Workers are processes of their own: the program starts itself again. Jobs are counted by their handlers, in the worker
//! process; that every job is really done is then read from the system's own tables.

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
    // The same runtime for every system: a thread per core, as `#[tokio::main]` has it in each one's documentation.
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
