//! A live job is not rescued: handlers block every thread of the runtime for five leases. The machine is busy with
//! other work, and another worker searches for dead workers.

use std::time::Duration;

use anyhow::Result;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::Enqueue as _;
use torture::checker::Promise;
use torture::history::{CommitOutcome, fault};
use torture::workload::handlers::Hog;
use torture::workload::{Shape, Work};

use super::at_rest::PATIENCE;
use super::fixture::{Fixture, History, LEASE, Size};
use super::fleet::Fleet;
use super::run::Run;

/// The number of rounds.
const SHORT: Size = Size { jobs: 0, faults: 1 };
const LONG: Size = Size { jobs: 0, faults: 6 };
const LEASES: u32 = 5;

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let threads = std::thread::available_parallelism()?.get();
    let busy = Fleet::start(fixture, fixture.worker_url(), History::Quick, &["--queues", "default=64"], 1).await?;
    // This worker does not serve the queue of these jobs.
    let sweeper = Fleet::start(fixture, fixture.worker_url(), History::Quick, &["--queues", "aside"], 1).await?;
    let burners = (0..2 * threads).map(|_| fixture.burner()).collect::<Result<Vec<_>>>()?;
    let conn = fixture.connect().await?;
    let mut application = AsyncPgConnection::establish(&fixture.url()).await?;
    let mut ledger = Vec::new();
    let mut drained = true;
    let hold = u64::try_from((LEASES * LEASE).as_millis())?;
    for _ in 0..size.faults {
        fault(&conn, "every thread is blocked", None).await?;
        for _ in 0..threads {
            let work = Work::new(i64::try_from(ledger.len())?, Shape::Async).lasting(hold);
            let id = Hog { work: work.clone() }.enqueue(&mut application).await?;
            ledger.push(work.enqueued(Some(id.0), CommitOutcome::Acknowledged));
        }
        // The hogs may run one after the other, if they do not get a thread each.
        let limit = LEASE * LEASES * u32::try_from(threads)? + Duration::from_secs(30);
        // The limit for a mutant is also longer than a hog takes.
        drained &= fixture.at_rest_within(fixture.mutant().map_or(limit, |_| PATIENCE)).await?;
    }
    drop(burners);
    let mut run = Run::check(fixture, &ledger, Promise { no_attempt_consumed: true, ..Promise::default() }).await?;
    run.load = format!("{} hogs, {} busy processes", ledger.len(), 2 * threads);
    run.faults = size.faults;
    let rescued = run.record.failures.iter().filter(|failure| failure.kind == "crash").count();
    run.expect(drained, || "hogs have not ended".to_owned());
    run.expect(rescued == 0, || format!("{rescued} jobs of living workers were rescued"));
    if drained {
        busy.stop().await?;
        sweeper.stop().await?;
    }
    Ok(run)
}
