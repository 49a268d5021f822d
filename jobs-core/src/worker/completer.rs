//! The completer: one per process, writes finishes in batches. A batch is whatever came in while the one before was
//! being written, so that a lone finish waits for nothing. In a flood that alone would make many small batches on a fast
//! disk, each with a statement and a commit to pay: while batches are large, one waits a moment to become full.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Shared;
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::error::{Failure, FailureKind, StorageError};
use crate::job::JobId;
use crate::outcome::{Finish, Keep, Transition};
use crate::telemetry::{self, Trouble};

/// The largest batch.
const BATCH: usize = 500;
/// From this size on, a batch tells of a flood.
const FLOOD: usize = 32;
/// What the batch after such a one waits at most.
const LINGER: Duration = Duration::from_millis(4);
/// Finishes that wait before executors do: back-pressure.
const WAITING: usize = 4 * BATCH;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A finish that the database refuses by itself, not for its transport, is tried this often.
const REFUSALS: u32 = 5;
/// What a shutdown waits for the last batch.
const FLUSH: Duration = Duration::from_secs(10);

struct Report {
    ctx: JobContext,
    transition: Transition,
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
    pub(super) async fn finish(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.hand_in(Report { ctx, transition, ran, may_be_settled: false }).await;
    }

    /// A finish of a job that never ran.
    pub(super) async fn report(&self, ctx: JobContext, transition: Transition) {
        self.finish(ctx, transition, Duration::ZERO).await;
    }

    /// A finish that may find its job gone, and then all is well.
    pub(super) async fn settle(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.hand_in(Report { ctx, transition, ran, may_be_settled: true }).await;
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
    let mut flood = false;
    while reports.recv_many(&mut batch, BATCH).await > 0 {
        if flood {
            fill(&mut batch, &mut reports).await;
        }
        flood = batch.len() >= FLOOD;
        write(&shared, std::mem::take(&mut batch), &trouble).await;
    }
}

/// Waits for more, until the batch is full, the time is over or nobody is left to report.
async fn fill(batch: &mut Vec<Report>, reports: &mut mpsc::Receiver<Report>) {
    let _ = tokio::time::timeout(LINGER, async {
        while batch.len() < BATCH && reports.recv_many(batch, BATCH - batch.len()).await > 0 {}
    })
    .await;
}

/// Writes a batch, however long the database is away: the heartbeat keeps the leases, and if it cannot, they are lost
/// and the batch is refused.
async fn write(shared: &Shared, reports: Vec<Report>, trouble: &Trouble) {
    let finish = |report: &Report| Finish { lease: report.ctx.lease(), transition: report.transition.clone() };
    let batch: Vec<Finish> = reports.iter().map(finish).collect();
    crash_point(if batch.len() > 1 { "finish-batch" } else { "finish-one" });
    let mut pause = FIRST_PAUSE;
    let mut refusals = 0;
    let moved = loop {
        match shared.storage.finish(&batch).await {
            Ok(moved) => break moved,
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
    crash_point("finished");
    // A finish whose reply was lost was written, and its repetition finds nothing: that is settled too.
    let repeated = pause > FIRST_PAUSE;
    let all = moved.len() == reports.len();
    let moved: HashSet<JobId> = if all { HashSet::new() } else { moved.into_iter().collect() };
    for Report { ctx, transition, ran, may_be_settled } in &reports {
        if all || moved.contains(&ctx.id()) {
            shared.done(ctx, transition, *ran);
            continue;
        }
        if !may_be_settled && !repeated {
            shared.refused(ctx, transition.verb());
        }
        shared.leases.spend(&ctx.lease());
    }
    // The spent ones are none of them any more.
    shared.leases.end(batch.iter().map(|finish| &finish.lease));
}

/// The database will not have these outcomes. Running their jobs again and again would be worse than an end that people
/// see; should it refuse that, too, the auditor gives the jobs back.
async fn discard(shared: &Shared, reports: Vec<Report>, problem: &StorageError) {
    telemetry::refused("finish", problem);
    let failure = Failure::new(FailureKind::Error, &format!("its outcome could not be stored: {problem}"));
    let keep = Keep::For(shared.settings.retention.failed);
    for Report { ctx, ran, .. } in reports {
        let lease = ctx.lease();
        let finish = [Finish { lease, transition: Transition::Discard { failure: failure.clone(), keep } }];
        if shared.storage.finish(&finish).await.is_ok_and(|moved| !moved.is_empty()) {
            shared.done(&ctx, &finish[0].transition, ran);
            shared.leases.end([&lease]);
        } else {
            shared.doubt.store(true, Ordering::Release);
            shared.leases.spend(&lease);
        }
    }
}

impl Shared {
    /// The transition is written.
    pub(super) fn done(&self, ctx: &JobContext, transition: &Transition, ran: Duration) {
        self.counters.count_finished(transition);
        telemetry::finished(ctx.kind(), &ctx.lease(), transition, ran);
    }

    /// The lease was gone, or taken for gone; nothing was written.
    fn refused(&self, ctx: &JobContext, verb: &str) {
        self.doubt.store(true, Ordering::Release);
        self.counters.count_lease_lost();
        telemetry::lease_lost(&ctx.lease(), ctx.kind(), verb);
    }

    /// The lease is gone; nothing will be written.
    pub(super) fn lost(&self, ctx: &JobContext, verb: &str) {
        self.refused(ctx, verb);
        self.leases.spend(&ctx.lease());
    }
}
