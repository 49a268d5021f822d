//! Unique jobs: many connections enqueue jobs with few keys, one by one and in bulk. Their transactions commit late or
//! not at all. Meanwhile workers are killed and the server crashes.
//!
//! At every moment at most one job has a key. No enqueue fails, except with its connection. What was rolled back never
//! runs. A job that was replaced or debounced runs with the newest arguments, and no debounced job waits for longer
//! than it may. A job that runs again starts after the one before it has ended. At the end every key is free, and no
//! row of a key and no permit is left.

mod rivals;
mod told;

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use torture::history::{CRASH, fault, load};
use torture::workload::keyed::{Keeping, MAX, WorkKey};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::run::Run;
use super::watch::Watch;
use rivals::Rival;
use told::Told;

/// The number of jobs is what is enqueued until the last fault.
const SHORT: Size = Size { jobs: 0, faults: 12 };
const LONG: Size = Size { jobs: 0, faults: 200 };
const WORKERS: usize = 3;
const RIVALS: i64 = 6;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 200..700;
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 6;
/// The keys of each rule for which all rivals race.
const SHARED: i64 = 3;

/// What the [`Watch`] looks for. `$max$` is the longest time that a debounced job may wait.
const LOOK: &str = "with waiting as (
    select id, args ->> 'key' as key, lease, run_at, enqueued_at from jobs.ready where kind = 'keyed'
    union all
    select id, args ->> 'key', lease, run_at, enqueued_at from jobs.held where kind = 'keyed'
), open as (
    select key from waiting union all select args ->> 'key' from jobs.running where kind = 'keyed'
)
select 'two jobs with a key', key, count(*)::text from open where key like 'keep%' or key like 'replace%' group by key having count(*) > 1
union all
select 'two jobs with a key that have not started', key, count(*)::text from waiting
where lease = 0 and (key like 'started%' or key like 'debounce%' or key like 'again%') group by key having count(*) > 1
union all
select 'two jobs with a key run', key, count(*)::text from (
    select args ->> 'key' as key from jobs.running where kind = 'keyed'
) running where key like 'again%' group by key having count(*) > 1
union all
select 'debounced for too long', key, id::text || ' until ' || run_at || ', enqueued at ' || enqueued_at from waiting
where key like 'debounce%' and lease = 0 and run_at > enqueued_at + interval '1500 milliseconds' and run_at > clock_timestamp()";
const _: () = assert!(MAX.as_millis() == 1_500, "the query above names the time");

/// As many lines as an error with its details has in the server's log.
const EXCERPT_LINES: usize = 30;
/// Errors in the server's log that no statement may cause.
const NEVER: [&str; 2] = ["deadlock detected", "duplicate key value"];

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let log = fixture.cluster.log_length()?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, LOOK, Duration::MAX);
    let stop = CancellationToken::new();
    let mut rivals = JoinSet::new();
    for place in 0..RIVALS {
        rivals.spawn(Rival::new(fixture.url(), fixture.seed, place, SHARED).race(stop.clone()));
    }
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &fixture.connect().await?).await?;
        if kill % KILLS_PER_CRASH == 0 {
            // A worker that starts without a server ends with an error.
            fleet.at_work().await?;
            fault(&fixture.connect().await?, CRASH, None).await?;
            fixture.cluster.crash()?;
            fixture.cluster.restart()?;
        }
    }
    stop.cancel();
    let mut told = Told::default();
    while let Some(rival) = rivals.join_next().await {
        told.add(rival??);
    }
    let drained = fixture.at_rest(DRAINED).await?;
    let mut complaints = Vec::new();
    if drained {
        complaints.extend(every_key_is_free(fixture, &mut told).await?);
    }
    let drained = drained && fixture.at_rest(DRAINED).await?;
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, "select count(*) from jobs.unique_key").await?;
    let permits = number(&conn, "select count(*) from jobs.permit").await?;
    let record = load(&conn).await?;
    complaints.extend(told.complaints(&conn, &record).await?);
    let errors = fixture.cluster.log_since(log)?;
    let dead = fleet.dead()?;
    let mut run = Run { load: told.to_string(), faults: size.faults + size.faults / KILLS_PER_CRASH, ..Run::default() };
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the keys: nothing was tested", found.looks));
    run.expect(left == 0, || format!("{left} keys are left of jobs that have ended"));
    run.expect(permits == 0, || format!("{permits} permits are left of jobs that have ended"));
    run.expect(record.open.is_empty(), || format!("sessions are left in a transaction: {:?}", record.open));
    for error in NEVER {
        let found = excerpt(&errors, error);
        run.expect(found.is_none(), || format!("the server's log has {error:?}: {}", found.unwrap_or_default()));
    }
    run.complaints.extend(found.complaints);
    run.complaints.extend(complaints);
    run.record = record;
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Returns the first line of a log with this error, and the lines after it, which name the statements and the locks.
fn excerpt(log: &str, error: &str) -> Option<String> {
    let lines: Vec<_> = log.lines().skip_while(|line| !line.contains(error)).take(EXCERPT_LINES).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// All jobs have ended, so each key must be free for a new job. This job then also takes the rows that are left of keys
/// of which a rollback has kept the end of their job from deleting them. That happens only to rules whose enqueue gives
/// the key of a running job to another.
async fn every_key_is_free(fixture: &Fixture<'_>, told: &mut Told) -> Result<Vec<String>> {
    let left = "select count(*) from jobs.unique_key where key ~ 'keep|replace'";
    let left = number(&fixture.connect().await?, left).await?;
    let mut complaints = Vec::new();
    if left > 0 {
        complaints.push(format!("{left} keys are left of jobs that have ended"));
    }
    let mut rival = Rival::new(fixture.url(), fixture.seed, RIVALS, SHARED);
    for rule in 0..Keeping::ALL.len() {
        for number in told.keys(rule) {
            let key = WorkKey { rule, number };
            if !rival.enqueue_one(key).await? {
                complaints.push(format!("all jobs have ended, and the key {key:?} is not free"));
            }
        }
    }
    told.add(rival.told());
    Ok(complaints)
}
