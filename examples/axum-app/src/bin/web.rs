//! The shop's web server. On SIGTERM or Ctrl-C it accepts no new connections, completes the requests in progress, and
//! exits with code 0.

use std::future::pending;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use axum_app::{ADMIN_JOBS, App, Settings, admin_jobs, connect, router};
use diesel_jobs::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// Postgres allows a hundred connections in total by default, for all its clients.
const CONNECTIONS: usize = 16;

/// How long requests that are in progress at the shutdown may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();

    let Settings { database_url, bind, review_after, operators } = Settings::from_env()?;
    // The dashboard has a connection of its own.
    let jobs = admin_jobs(Database::open(&database_url, 0).await?, operators);
    let app = App { pool: connect(&database_url, CONNECTIONS)?, review_after };
    // Before anything that takes time, so that no signal during the start is lost.
    let stop = shutdown_signal()?;
    let listener = TcpListener::bind(&bind).await.with_context(|| format!("BIND: cannot listen at {bind}"))?;
    tracing::info!("listening on http://{}", listener.local_addr()?);

    let (stopping, stopped) = oneshot::channel();
    let serve = axum::serve(listener, router(app).nest_service(ADMIN_JOBS, jobs)).with_graceful_shutdown(async move {
        tracing::info!("{} received: answering what is under way", stop.await);
        let _ = stopping.send(());
    });
    let after_limit = async {
        match stopped.await {
            Ok(()) => tokio::time::sleep(SHUTDOWN_LIMIT).await,
            Err(_) => pending().await,
        }
    };
    tokio::select! {
        served = serve.into_future() => served?,
        () = after_limit => tracing::warn!("some requests took longer than {SHUTDOWN_LIMIT:?} and are dropped"),
    }
    Ok(())
}

/// Installs the signal handlers immediately. The future returns the name of the first signal.
#[cfg(unix)]
fn shutdown_signal() -> anyhow::Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

#[cfg(not(unix))]
fn shutdown_signal() -> anyhow::Result<impl Future<Output = &'static str>> {
    Ok(async {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => pending().await,
        }
    })
}
