//! The worker process: an ordinary worker on the queues of the load test. It reports its progress to its parent and
//! ends with it.

use std::io::Read as _;
use std::time::Duration;

use diesel_jobs_core::{Registry, Worker, WorkerHandle};
use tokio::sync::oneshot;

use super::args::WorkArgs;
use super::line::{Line, say};
use super::load::{LOAD, Noop, PROBES, Probe};
use crate::cli::app::App;
use crate::cli::exit::{CliError, Exit};

/// The time between two reports.
const REPORT: Duration = Duration::from_millis(10);

/// The jobs of the test are short. A job that runs longer than this after the stop is stuck.
const GRACE: Duration = Duration::from_secs(1);

/// The slots for probes. That is more than the probes that arrive during one claim.
const PROBES_AT_ONCE: usize = 8;

pub(in crate::cli) async fn work(app: &App<'_>, args: &WorkArgs) -> Result<Exit, CliError> {
    let storage = diesel_jobs_storage::bench::storage(app.url()?).await?;
    let worker = Worker::builder(storage)
        .registry(Registry::new().with::<Noop>().with::<Probe>())
        .queue(LOAD, args.slots)
        .queue(PROBES, PROBES_AT_ONCE)
        .grace_period(GRACE)
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
        // A failed attempt counts as work too.
        let done = stats.completed + stats.retried;
        if done != said {
            say(Line::Done(done));
            said = done;
        }
        tokio::time::sleep(REPORT).await;
    }
}

/// Returns when standard input ends: the parent has closed it, or the parent has ended.
async fn parent_gone() {
    let (gone, heard) = oneshot::channel::<()>();
    // A thread, because a blocking read cannot be cancelled.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        drop(gone);
    });
    // The result is always an error: the sender was dropped. That is the signal.
    let _ = heard.await;
}
