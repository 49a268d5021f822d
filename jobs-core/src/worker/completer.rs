//! The completer: one per process, writes finishes in batches. A batch is whatever came in while the one before was
//! being written, so that a lone finish waits for nothing and a flood shares its commits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Shared;
use crate::error::{Failure, FailureKind, StorageError};
use crate::job::JobId;
use crate::lease::Lease;
use crate::outcome::{Finish, Keep, Transition};
use crate::telemetry::{self, Trouble};

/// The largest batch.
const BATCH: usize = 500;
/// Finishes that wait before executors do: back-pressure.
const WAITING: usize = 4 * BATCH;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A finish that the database refuses by itself, not for its transport, is tried this often.
const REFUSALS: u32 = 5;
/// What a shutdown waits for the last batch.
const FLUSH: Duration = Duration::from_secs(10);

struct Report {
    finish: Finish,
    kind: String,
    ran: Duration,
    /// The job may be gone because the handler's own transaction committed.
    may_be_settled: bool,
}

pub(super) struct Completer {
    reporter: Reporter,
    task: JoinHandle<()>,
}

/// Where executors hand in how their attempts ended.
#[derive(Clone)]
pub(super) struct Reporter {
    queue: mpsc::Sender<Report>,
}

impl Reporter {
    /// Has the finish written with the next batch. Waits while too many are waiting.
    pub(super) async fn finish(&self, kind: &str, finish: Finish, ran: Duration) {
        self.hand_in(Report { finish, kind: kind.to_owned(), ran, may_be_settled: false }).await;
    }

    /// A finish of a job that never ran.
    pub(super) async fn report(&self, kind: &str, finish: Finish) {
        self.finish(kind, finish, Duration::ZERO).await;
    }

    /// A finish that may find its job gone, and then all is well.
    pub(super) async fn settle(&self, kind: &str, finish: Finish, ran: Duration) {
        self.hand_in(Report { finish, kind: kind.to_owned(), ran, may_be_settled: true }).await;
    }

    async fn hand_in(&self, report: Report) {
        // The completer outlives every executor; should it be gone, the lease runs out and the job is rescued.
        let _ = self.queue.send(report).await;
    }
}

impl Completer {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let (queue, reports) = mpsc::channel(WAITING);
        Self { reporter: Reporter { queue }, task: tokio::spawn(run(shared.clone(), reports)) }
    }

    pub(super) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Writes what is still waiting, as far as the database lets it.
    pub(super) async fn flush(self) {
        let Self { reporter, task } = self;
        drop(reporter);
        let abort = task.abort_handle();
        if tokio::time::timeout(FLUSH, task).await.is_err() {
            abort.abort();
        }
    }
}

/// Runs until every reporter is gone and everything is written.
async fn run(shared: Arc<Shared>, mut reports: mpsc::Receiver<Report>) {
    let trouble = Trouble::new("finish");
    let mut batch = Vec::with_capacity(BATCH);
    while reports.recv_many(&mut batch, BATCH).await > 0 {
        write(&shared, std::mem::take(&mut batch), &trouble).await;
    }
}

/// Writes a batch, however long the database is away: the heartbeat keeps the leases, and if it cannot, they are lost
/// and the batch is refused.
async fn write(shared: &Shared, reports: Vec<Report>, trouble: &Trouble) {
    let batch: Vec<Finish> = reports.iter().map(|report| report.finish.clone()).collect();
    let mut pause = FIRST_PAUSE;
    let mut refusals = 0;
    let moved: HashSet<JobId> = loop {
        match shared.storage.finish(&batch).await {
            Ok(moved) => break moved.into_iter().collect(),
            Err(problem) if !problem.is_transient() && batch.len() > 1 => {
                // One of them cannot be written: alone, the others can.
                trouble.report(&problem);
                for report in reports {
                    Box::pin(write(shared, vec![report], trouble)).await;
                }
                return;
            }
            Err(problem) => {
                refusals += u32::from(!problem.is_transient());
                if refusals == REFUSALS {
                    return discard(shared, reports, &problem).await;
                }
                trouble.report(&problem);
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    };
    // A finish whose reply was lost was written, and its repetition finds nothing: that is settled too.
    let repeated = pause > FIRST_PAUSE;
    for Report { finish: Finish { lease, transition }, kind, ran, may_be_settled } in reports {
        if moved.contains(&lease.job) {
            shared.done(&kind, lease, &transition, ran);
        } else if may_be_settled || repeated {
            shared.leases.end(&lease);
        } else {
            shared.lost(&kind, lease, transition.verb());
        }
    }
}

/// The database will not have these outcomes. Running their jobs again and again would be worse than an end that people
/// see; should it refuse that, too, the auditor gives the jobs back.
async fn discard(shared: &Shared, reports: Vec<Report>, problem: &StorageError) {
    telemetry::refused("finish", problem);
    let failure = Failure::new(FailureKind::Error, &format!("its outcome could not be stored: {problem}"));
    let keep = Keep::For(shared.settings.retention.failed);
    for Report { finish: Finish { lease, .. }, kind, ran, .. } in reports {
        let transition = Transition::Discard { failure: failure.clone(), keep };
        let finish = [Finish { lease, transition }];
        match shared.storage.finish(&finish).await {
            Ok(moved) if !moved.is_empty() => shared.done(&kind, lease, &finish[0].transition, ran),
            Ok(_) | Err(_) => shared.leases.end(&lease),
        }
    }
}

impl Shared {
    /// The transition is written.
    pub(super) fn done(&self, kind: &str, lease: Lease, transition: &Transition, ran: Duration) {
        self.counters.count_finished(transition);
        telemetry::finished(kind, &lease, transition, ran);
        self.leases.end(&lease);
    }

    /// The lease was gone; nothing was written.
    pub(super) fn lost(&self, kind: &str, lease: Lease, verb: &str) {
        self.counters.count_lease_lost();
        telemetry::lease_lost(&lease, kind, verb);
        self.leases.end(&lease);
    }
}
