//! The desk's web server. On SIGTERM it accepts no new connections, completes the requests in progress, stops its
//! worker if it has one, and exits with code 0.

use std::io::IsTerminal as _;
use std::net::TcpListener;

use actix_app::{connect, routes, run_worker};
use actix_web::dev::Server;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use anyhow::Context as _;
use clap::Parser;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// How many seconds the requests in progress get at the stop.
const SHUTDOWN_SECONDS: u64 = 10;

/// The web server of the help desk
#[derive(Parser)]
struct Settings {
    /// The desk's database, such as postgres://localhost/desk
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The address to listen at
    #[arg(long, env = "BIND", default_value = "127.0.0.1:8080")]
    bind: String,
    /// Also run the background jobs, in this process
    #[arg(long)]
    with_worker: bool,
}

// actix's own threads serve the requests. The worker uses the threads of this runtime.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();

    let pool = Data::new(connect(&settings.database_url)?);
    let listener = TcpListener::bind(&settings.bind).with_context(|| format!("cannot listen at {}", settings.bind))?;
    tracing::info!("listening on http://{}", listener.local_addr()?);
    let app = move || App::new().app_data(pool.clone()).configure(routes);
    let server = HttpServer::new(app).shutdown_timeout(SHUTDOWN_SECONDS).listen(listener)?.run();
    if settings.with_worker { serve_and_work(server, &settings.database_url).await } else { Ok(server.await?) }
}

/// Runs the server until a signal, and a worker until the server has ended.
async fn serve_and_work(server: Server, database_url: &str) -> anyhow::Result<()> {
    let handle = server.handle();
    let (stop, stopped) = oneshot::channel();
    let serve = async {
        let served = server.await;
        // If the worker has failed, there is no receiver.
        let _ = stop.send(());
        served
    };
    let work = async {
        let stopped = async { stopped.await.unwrap_or_default() };
        let worked = run_worker(database_url, stopped).await;
        // A worker that fails stops the server: a supervisor must see it, and start both again.
        handle.stop(true).await;
        worked
    };
    let (served, worked) = tokio::join!(serve, work);
    served?;
    worked
}
