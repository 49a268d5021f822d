//! `run --listen`: a small HTTP server for probes and metrics. It has a thread and a runtime of its own, so that
//! handlers that block do not stop its answers. A request sends no statement to the database, so requests put no load
//! on the database.

mod answer;
mod connections;
mod database;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use diesel_jobs_core::storage::Operator;
use diesel_jobs_core::{MetricsText, WorkerHandle};
use tokio::sync::Notify;

use self::connections::Connections;
use super::exit::{CliError, Exit};

/// The pause after a connection could not be accepted, such as without free file descriptors.
const NOT_ACCEPTED: Duration = Duration::from_millis(100);

/// What the answers are made of.
#[derive(Default)]
pub(super) struct Answers {
    metrics: Arc<MetricsText>,
    worker: OnceLock<WorkerHandle>,
    /// The metrics were requested.
    asked: Notify,
}

impl Answers {
    /// Where the worker records its metrics.
    pub(super) fn metrics(&self) -> Arc<MetricsText> {
        self.metrics.clone()
    }

    /// From now on the answers are about this worker.
    pub(super) fn are_about(&self, worker: WorkerHandle) {
        self.metrics.watch(worker.clone());
        // It is set once, because the program runs one worker.
        let _ = self.worker.set(worker);
    }

    /// Adds the gauges of the whole database. Runs as long as the worker.
    pub(super) async fn read_gauges(&self, operator: Arc<dyn Operator>) {
        database::read_gauges(&self.metrics, &self.asked, operator).await;
    }
}

/// Starts to listen. An address that cannot be used is an error of the command line, before anything else happens.
pub(super) fn start(address: &str) -> Result<Arc<Answers>, CliError> {
    let unusable = |problem: io::Error| {
        let reason = match problem.kind() {
            io::ErrorKind::AddrInUse => "another program listens there already; choose another port".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine does not have this address".to_owned(),
            io::ErrorKind::PermissionDenied => "this user may not use this port; choose one from 1024".to_owned(),
            _ => problem.to_string(),
        };
        CliError::new(Exit::Usage, format!("cannot listen on {address} (--listen, JOBS_LISTEN): {reason}"))
    };
    let listener = TcpListener::bind(address).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let place = listener.local_addr().map_err(unusable)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("starting the runtime of --listen: {error}")))?;
    let answers = Arc::<Answers>::default();
    let shared = answers.clone();
    std::thread::Builder::new()
        .name("jobs-listen".to_owned())
        .spawn(move || {
            if let Err(problem) = runtime.block_on(serve(listener, &shared)) {
                tracing::error!(target: "diesel_jobs", "--listen ended, so probes and metrics are no longer served: {problem}");
            }
        })
        .map_err(|error| CliError::failed(format!("starting the thread of --listen: {error}")))?;
    tracing::info!(target: "diesel_jobs", { listen.address = %place }, "probes and metrics: http://{place}/livez, /readyz, /startupz, /metrics");
    Ok(answers)
}

async fn serve(listener: TcpListener, answers: &Arc<Answers>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.serve(stream, answers.clone()),
            Err(_) => tokio::time::sleep(NOT_ACCEPTED).await,
        }
    }
}
