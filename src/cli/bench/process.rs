//! The worker process: an ordinary worker on the load's queues, which reports what it does and ends with its parent.

use std::io::Read as _;
use std::time::Duration;

use diesel_jobs_core::{Registry, Worker, WorkerHandle};
use tokio::sync::oneshot;

use super::args::WorkArgs;
use super::line::{Line, say};
use super::load::{LOAD, Noop, PROBES, Probe};
use crate::cli::app::App;
use crate::cli::exit::{CliError, Exit};

/// How often it says how far it is.
const REPORT: Duration = Duration::from_millis(10);

/// The load's jobs are short: what is left after this is stuck.
const GRACE: Duration = Duration::from_secs(1);

/// Probes at once: more than come while a claim is under way.
const PROBES_AT_ONCE: usize = 8;

pub(in crate::cli) async fn work(app: &App<'_>, args: &WorkArgs) -> Result<Exit, CliError> {
    let storage = diesel_jobs_storage::bench::storage(app.url()?).await?;
    let worker = Worker::builder(storage)
        .registry(Registry::new().with::<Noop>().with::<Probe>())
        .queue(LOAD, args.concurrency)
        .queue(PROBES, PROBES_AT_ONCE)
        .grace(GRACE)
        .build()?;
    let reports = tokio::spawn(report(worker.handle()));
    let ended = worker.run_until(parent_gone()).await;
    reports.abort();
    ended?;
    Ok(Exit::Fine)
}

async fn report(handle: WorkerHandle) {
    while !handle.is_healthy() {
        tokio::time::sleep(REPORT).await;
    }
    say(Line::Ready);
    let mut said = 0;
    loop {
        let stats = handle.stats();
        // A failed attempt is work, too.
        let done = stats.completed + stats.retried;
        if done != said {
            say(Line::Done(done));
            said = done;
        }
        tokio::time::sleep(REPORT).await;
    }
}

/// Returns when standard input ends: the parent closed it, or is no more.
async fn parent_gone() {
    let (gone, heard) = oneshot::channel::<()>();
    // A thread, because a read that waits cannot be taken back.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        drop(gone);
    });
    // An error is the sender's end, which is what is awaited.
    let _ = heard.await;
}
