//! `jobs-pages`: fills a database with millions of jobs, and measures each page of the dashboard and each command that
//! people wait for.
//!
//! A page is asked for through the router, in this process. A command is a process of its own, so its time includes the
//! start of the process and the connection. `cargo xtask pages` builds both and starts a server.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a terminal")]

mod commands;
mod figure;
mod pages;
mod seed;
mod statements;
mod store;
mod targets;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use diesel_jobs::store::Chore;

use crate::figure::{Figure, table};
use crate::store::Store;
use crate::targets::Targets;

/// Fills a database with jobs, and measures each page of the dashboard and each command.
#[derive(Debug, Parser)]
#[command(name = "jobs-pages", max_term_width = 120)]
struct Cli {
    /// Which database
    #[arg(value_enum)]
    database: Kind,
    /// Ended jobs
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    finished: u64,
    /// Waiting jobs
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    waiting: u64,
    /// How often each page is asked for, and each command is run
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only pages and commands whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print one JSON object per page and command instead of a table
    #[arg(long)]
    json: bool,
    /// The PostgreSQL server, as a user who may create databases
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Postgres,
    Sqlite,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let measured = runtime.context("starting the runtime").and_then(|runtime| runtime.block_on(run(&Cli::parse())));
    match measured {
        Ok(figures) if figures.iter().all(Figure::holds) => ExitCode::SUCCESS,
        Ok(figures) => {
            let over = figures.iter().filter(|figure| !figure.holds()).count();
            eprintln!("error: {over} of {} took longer than they may", figures.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: &Cli) -> Result<Vec<Figure>> {
    statements::count()?;
    let store = Store::create(cli.database, cli.database_url.as_deref()).await?;
    let measured = measure(cli, &store).await;
    store.remove().await?;
    measured
}

async fn measure(cli: &Cli, store: &Store) -> Result<Vec<Figure>> {
    let begun = Instant::now();
    eprintln!("filling the database with {} ended and {} waiting jobs", cli.finished, cli.waiting);
    store.fill(cli.finished, cli.waiting).await?;
    eprintln!("filled in {:.0} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let counted = store
        .database
        .storage
        .maintain(Chore::SampleJobs, 1)
        .await
        .context("counting all jobs, as one of the workers does")?;
    eprintln!("counted all jobs in {:.1} s: {:?}", begun.elapsed().as_secs_f64(), counted.rows);
    let targets = Targets::find(&store.database).await?;
    pages::follow(store).await?;
    let mut figures = pages::measure(store, &targets, cli.runs, &cli.only).await?;
    figures.extend(commands::measure(store, &targets, cli.runs, &cli.only).await?);
    if cli.json {
        figures.iter().for_each(|figure| println!("{}", figure.json()));
    } else {
        println!("{}", table(&figures));
    }
    Ok(figures)
}
