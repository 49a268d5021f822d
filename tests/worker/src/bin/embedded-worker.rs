//! An application with a worker on its own runtime, whose handlers never return. It stops the worker at SIGTERM, and
//! then its `main` returns.

use std::time::Duration;

use diesel::{PgConnection, SqliteConnection};
use diesel_jobs::worker::Registry;
use diesel_jobs::{Backend, Database, Worker, job};
use tokio::signal::unix::{SignalKind, signal};
use worker_app::{Hang, Hog};

#[job(kind = "hang_in_transaction")]
fn hang_on_postgres(_conn: &mut PgConnection) {
    tracing::info!("the handler has begun");
    std::thread::sleep(Duration::from_secs(3600));
}

#[job(kind = "hang_in_transaction")]
fn hang_on_sqlite(_conn: &mut SqliteConnection) {
    tracing::info!("the handler has begun");
    std::thread::sleep(Duration::from_secs(3600));
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;
    let registry = Registry::new().with::<Hang>().with::<Hog>();
    let registry = match Backend::of(&url)? {
        Backend::Postgres => registry.with::<HangOnPostgres>(),
        _ => registry.with::<HangOnSqlite>(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let storage = Database::open(&url, 2).await?.storage;
    let worker = Worker::builder(storage).registry(registry).lease(Duration::from_secs(10));
    let worker = worker.grace_period(Duration::from_millis(200)).build()?;
    let terminated = async move {
        terminate.recv().await;
    };
    worker.run_until(terminated).await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    // One of them may be blocked.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(run());
    if std::env::args().nth(1).as_deref() == Some("shutdown_background") {
        runtime.shutdown_background();
    }
    // Otherwise it is dropped here, as `#[tokio::main]` does it.
    ended
}
