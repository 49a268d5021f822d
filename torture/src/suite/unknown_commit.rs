//! Unknown commit: the server commits and the reply is lost. This is done on four paths: enqueue, claim, finish, and
//! the transaction of a handler. On two of them, finish and transaction, some requests are lost on their way to the
//! server, too. The client cannot distinguish a lost request from a lost reply.
//!
//! What was committed is kept and takes effect once. A finish or a transaction that was not committed is repeated until
//! it is committed.

use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::history::CommitOutcome;
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use super::statements::{CLAIM, COMMIT, ENQUEUE, FINISH};

const SHORT: Size = Size { jobs: 1_500, faults: 80 };
const LONG: Size = Size { jobs: 30_000, faults: 1_200 };
const WORKERS: usize = 3;
const REST: Duration = Duration::from_secs(120);

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let (before_application, before_workers) =
        (Proxy::start(fixture.cluster.port()).await?, Proxy::start(fixture.upstream()).await?);
    let each = size.faults / 8;
    let paths = [
        ("enqueue", before_application.lose_replies(ENQUEUE, 3, each)),
        ("enqueue in a transaction", before_application.lose_replies(COMMIT, 2, each)),
        ("enqueue, last word", before_application.lose_last_words(ENQUEUE, 4, each)),
        ("claim", before_workers.lose_replies(CLAIM, 3, each)),
        ("finish", before_workers.lose_replies(FINISH, 3, each)),
        ("transactional", before_workers.lose_replies(COMMIT, 3, each)),
        ("finish, not arrived", before_workers.lose_requests(FINISH, 5, each)),
        ("transactional, not arrived", before_workers.lose_requests(COMMIT, 5, each)),
    ];
    let url = fixture.url_through(before_workers.port());
    let args = ["--slots", "8", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, url, History::Quick, &args, WORKERS).await?;
    let mix = Mix { bulk: 20, ..Mix::default() };
    let workload = Workload::new(fixture.seed, mix, size.jobs);
    let load = Load::start(fixture.url_through(before_application.port()), workload, Duration::from_millis(2));
    let application = load.ended().await?;
    let untold = application.untold();
    let ledger = application.ledger();
    let drained = fixture.at_rest(REST).await?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers, replies lost on four paths and requests on two", run.load);
    run.faults = paths.iter().map(|(_, lost)| lost.count()).sum();
    run.expect(drained, || format!("not drained after {REST:?}"));
    for (path, lost) in &paths {
        run.expect(lost.count() == each, || {
            format!("{path}: {} messages were lost, and should be {each}", lost.count())
        });
    }
    // The application's proxy drops only replies to commits. So what it got no reply for was committed.
    let jobs: std::collections::HashSet<i64> = run.record.jobs.iter().map(|job| job.number).collect();
    let unknown: Vec<i64> =
        ledger.iter().filter(|row| row.outcome == CommitOutcome::Unknown).map(|row| row.number).collect();
    let missing: Vec<_> = unknown.iter().filter(|number| !jobs.contains(number)).collect();
    run.expect(missing.is_empty(), || format!("committed without a reply, and not there: numbers {missing:?}"));
    let lost: usize = paths.iter().take(3).map(|(_, lost)| lost.count()).sum();
    run.expect(untold == lost, || {
        format!(
            "{lost} commits were not confirmed to the application, and {untold} times it takes the outcome for unknown"
        )
    });
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
