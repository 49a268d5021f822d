//! Tests whether all slots of a fleet can still be used: it enqueues a job for each slot, and all must run at the same
//! time.

use anyhow::Result;
use torture::history::Record;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use super::run::Run;

/// The numbers of these jobs begin here.
const FIRST: i64 = 9_000_000;
/// Long enough that all have started before one ends, whichever worker claims them.
const MILLIS: u64 = 1_500;

/// Enqueues one job for each of this many slots.
pub(super) async fn fill(application: &mut Application, slots: i64) -> Result<()> {
    let works = (FIRST..FIRST + slots).map(|number| Work::new(number, Shape::Async).lasting(MILLIS)).collect();
    application.perform(&EnqueueCall::Bulk(works)).await
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
