//! `jobs-torture`: the torture suite, and the worker and the load that it starts. It is run by `cargo xtask torture`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a terminal")]

mod options;
mod role;
mod suite;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    if let Some(role) = role::ours() {
        return role.play();
    }
    let options = options::Options::parse();
    let answer =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Into::into).and_then(|runtime| {
            runtime.block_on(async {
                tokio::select! {
                    answer = suite::run(&options) => answer,
                    // This drops the suite's future, and with it the workers and the server.
                    _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
                }
            })
        });
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
