//! The library's web server. On SIGTERM or Ctrl-C it accepts no new connections, completes the requests in progress,
//! stops its worker if it has one, and exits with code 0.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Parser;
use rocket::{Config, Ignite, Rocket};
use rocket_app::{connect, library, run_worker};
use tracing_subscriber::EnvFilter;

/// Postgres allows a hundred connections in total by default, for all its clients.
const CONNECTIONS: usize = 16;

/// The web server of the library
#[derive(Parser)]
struct Settings {
    /// The library's database, such as postgres://localhost/library
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many seconds after a loan the reader is reminded of it; three weeks by default
    #[arg(long, env = "REMIND_AFTER_SECONDS", default_value_t = 21 * 24 * 3600)]
    remind_after_seconds: u64,
    /// Also run the background jobs, in this process
    #[arg(long)]
    with_worker: bool,
}

#[rocket::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    // Rocket describes each request in several lines of level `info`. Its address is a warning.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,diesel_jobs=info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();

    // Rocket would say only that one of its settings is wrong. This error says which one.
    Config::figment().extract::<Config>()?;
    let pool = connect(&settings.database_url, CONNECTIONS)?;
    let rocket = library(pool, Duration::from_secs(settings.remind_after_seconds)).ignite().await?;
    if settings.with_worker {
        return serve_and_work(rocket, &settings.database_url).await;
    }
    rocket.launch().await?;
    Ok(())
}

/// Runs the server and a worker until a signal, or until one of them fails. Both stop at the same time.
async fn serve_and_work(rocket: Rocket<Ignite>, database_url: &str) -> anyhow::Result<()> {
    let shutdown = rocket.shutdown();
    let serve = async {
        let served = rocket.launch().await;
        // Without this the worker would continue if the server cannot start.
        shutdown.clone().notify();
        served
    };
    let work = async {
        let worked = run_worker(database_url, shutdown.clone()).await;
        // A worker that fails stops the server: a supervisor must see it, and start both again.
        shutdown.clone().notify();
        worked
    };
    let (served, worked) = rocket::tokio::join!(serve, work);
    served?;
    worked
}
