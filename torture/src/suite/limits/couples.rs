//! Couples of jobs with a key of their own: the second one is enqueued at about the time at which the first one ends.
//! No other job nudges their key. The first one ends in a transaction that commits late. So the second one often comes
//! when the finish has been executed and is not visible yet.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use torture::history::Enqueued;
use torture::workload::{Application, EnqueueCall, Shape, Work};

use crate::suite::fixture::Fixture;

/// How many sessions enqueue couples.
const COUPLERS: i64 = 4;
/// The pause after each job.
const COUPLED_MILLIS: std::ops::Range<u64> = 0..150;
/// The range of job numbers of each of these sessions.
const EACH: i64 = 1_000_000;
/// Lets the transactions of such jobs wait for a tenth of a second in their commit, after the finish.
pub(super) const COMMIT_LATE: &str =
    "create function torture.commit_late() returns trigger language plpgsql as $do$ begin
    perform pg_sleep(0.1);
    return null;
end $do$;
create constraint trigger commit_late after insert on torture.effect deferrable initially deferred
for each row when (new.number >= 1000000) execute function torture.commit_late()";
const _: () = assert!(EACH == 1_000_000, "the trigger above names the first job number");

/// Enqueues couples for this time. Returns what it has enqueued.
pub(super) async fn enqueue_for(fixture: &Fixture<'_>, time: Duration) -> Result<Vec<Enqueued>> {
    let (mut couples, stop) = (JoinSet::new(), CancellationToken::new());
    for place in 1..=COUPLERS {
        couples.spawn(enqueue(fixture.url(), fixture.seed, place, stop.clone()));
    }
    tokio::time::sleep(time).await;
    stop.cancel();
    let mut ledger = Vec::new();
    while let Some(couples) = couples.join_next().await {
        ledger.extend(couples??);
    }
    Ok(ledger)
}

async fn enqueue(url: String, seed: u64, place: i64, stop: CancellationToken) -> Result<Vec<Enqueued>> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(place.unsigned_abs()));
    let mut application = Application::new(url);
    let mut next = place * EACH;
    while !stop.is_cancelled() {
        let key = next;
        for _ in 0..2 {
            next += 1;
            let work = Work::new(next, Shape::Transactional).limited("couple", key, 1);
            application.perform(&EnqueueCall::Single(work)).await?;
            tokio::time::sleep(Duration::from_millis(rng.random_range(COUPLED_MILLIS))).await;
        }
    }
    Ok(application.ledger())
}
