//! Tests whether all slots of a fleet can still be used: it enqueues a job for each slot, and all must run at the same
//! time. On a busy machine the first may end before the last one starts. A slot that is lost stays lost, so it then
//! tries again with jobs that last longer.

use std::time::Duration;

use anyhow::Result;
use torture::history::Record;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::fixture::Fixture;
use super::run::Run;

/// The numbers of these jobs begin here.
const FIRST: i64 = 9_000_000;
/// How long the jobs of each try last. Usually all have started before one ends, whichever worker claims them.
const MILLIS: [u64; 3] = [1_500, 6_000, 24_000];
/// The most of these jobs that ran at the same time.
const AT_ONCE: &str = "select coalesce(max(running), 0) from (
    select sum(case what when 'start' then 1 else -1 end) over (order by at) as running from torture.event where number >= $1
) jobs";

/// Enqueues one job for each of this many slots, and waits until they have ended. Returns whether they have within this
/// time.
pub(super) async fn fill(
    fixture: &Fixture<'_>,
    application: &mut Application,
    slots: i64,
    rest: Duration,
) -> Result<bool> {
    let conn = fixture.connect().await?;
    for (first, millis) in (FIRST..).step_by(usize::try_from(slots)?).zip(MILLIS) {
        let works = (first..first + slots).map(|number| Work::new(number, Shape::Async).lasting(millis)).collect();
        application.perform(&EnqueueCall::Bulk(works)).await?;
        if !fixture.at_rest(rest).await? {
            return Ok(false);
        }
        let at_once: i64 = conn.query_one(AT_ONCE, &[&first]).await?.get(0);
        if at_once >= slots {
            break;
        }
    }
    Ok(true)
}

/// Adds a complaint if there was no moment at which all of them ran.
pub(super) fn expect_all(run: &mut Run, slots: i64) {
    let at_once = at_once(&run.record);
    run.expect(at_once >= slots, || format!("{at_once} of {slots} slots can be used"));
}

fn at_once(record: &Record) -> i64 {
    let (mut running, mut most) = (0, 0);
    for event in record.events.iter().filter(|event| event.number >= FIRST) {
        running += if event.what == "start" { 1 } else { -1 };
        most = most.max(running);
    }
    most
}
