//! Claim race: many workers claim the same jobs. The jobs appear out of order, because their transactions commit up to
//! three seconds after the inserts, or not at all.
//!
//! No lease is assigned twice. No job waits long after its commit, however late that was.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::result::Error as DieselError;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs::Enqueue as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use torture::checker::Promise;
use torture::history::{CommitOutcome, Enqueued, Record};
use torture::workload::{Shape, Work, new_job};

use super::fixture::{Fixture, History, Size};
use super::fleet::Fleet;
use super::run::Run;

/// The jobs of each producer, and the number of workers.
const SHORT: Size = Size { jobs: 60, faults: 12 };
const LONG: Size = Size { jobs: 1_000, faults: 64 };
const PRODUCERS: i64 = 24;
const MOST_AT_ONCE: usize = 8;
/// The longest time allowed from a commit to the start of its jobs.
const PASSED_OVER: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(60);
/// The range of job numbers of one producer.
const EACH: i64 = 1_000_000;

/// What one producer enqueued, and for each job the time just before its commit.
#[derive(Default)]
struct Produced {
    ledger: Vec<Enqueued>,
    committed: HashMap<i64, DateTime<Utc>>,
}

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let args = ["--slots", "4", "--poll-interval", "200ms"];
    let fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, size.faults).await?;
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let seed = fixture.seed.wrapping_mul(1_000).wrapping_add(producer.unsigned_abs());
        producers.spawn(produce(fixture.url(), seed, producer * EACH, size.jobs));
    }
    let mut all = Produced::default();
    while let Some(produced) = producers.join_next().await {
        let Produced { ledger, committed } = produced??;
        all.ledger.extend(ledger);
        all.committed.extend(committed);
    }
    let drained = fixture.at_rest(REST).await?;
    let promise = Promise { no_attempt_consumed: true, ..Promise::default() };
    let mut run = Run::check(fixture, &all.ledger, promise).await?;
    run.load = format!("{}, {} workers x 4 slots, {PRODUCERS} late committers", run.load, size.faults);
    run.recovery = waits(&run.record, &all.committed);
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect_within(1.0, PASSED_OVER);
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

async fn produce(url: String, seed: u64, first: i64, jobs: usize) -> Result<Produced> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut conn = AsyncPgConnection::establish(&url).await?;
    let mut produced = Produced::default();
    let mut number = first;
    while produced.ledger.len() < jobs {
        let works: Vec<Work> = (0..rng.random_range(1..=MOST_AT_ONCE))
            .map(|_| {
                number += 1;
                let work = Work::new(number, Shape::Async).lasting(rng.random_range(0..10));
                Work { priority: rng.random_range(0..3), ..work }
            })
            .collect();
        // Most transactions commit at once, some late, a few very late.
        let late = match rng.random_range(0..10) {
            0..6 => 0,
            6..9 => rng.random_range(0..300),
            _ => rng.random_range(300..3_000),
        };
        let commits = rng.random_range(0..10) > 0;
        let (ids, at) = commit(&mut conn, &works, Duration::from_millis(late), commits).await?;
        let outcome = if commits { CommitOutcome::Acknowledged } else { CommitOutcome::RolledBack };
        for (work, id) in works.iter().zip(ids) {
            produced.ledger.push(work.enqueued(Some(id), outcome));
            produced.committed.extend(at.map(|at| (work.number, at)));
        }
    }
    Ok(produced)
}

/// Enqueues, waits, and commits or rolls back. Returns the ids, and the time just before the commit if there was one.
async fn commit(
    conn: &mut AsyncPgConnection,
    works: &[Work],
    late: Duration,
    commits: bool,
) -> Result<(Vec<i64>, Option<DateTime<Utc>>)> {
    let jobs = works.iter().map(new_job).collect::<Result<Vec<_>, _>>()?;
    let (mut ids, mut at) = (Vec::new(), None);
    let committed = conn
        .transaction(async |conn| {
            for job in jobs {
                ids.push(job.enqueue(conn).await.map_err(DieselError::from)?.0);
            }
            tokio::time::sleep(late).await;
            if !commits {
                return Err(DieselError::RollbackTransaction);
            }
            at = Some(diesel::select(sql::<Timestamptz>("clock_timestamp()")).get_result(conn).await?);
            Ok(())
        })
        .await;
    match committed {
        Ok(()) | Err(DieselError::RollbackTransaction) => Ok((ids, at)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the times from each commit to the start of its jobs, in seconds.
fn waits(record: &Record, committed: &HashMap<i64, DateTime<Utc>>) -> Vec<f64> {
    let starts = record.events.iter().filter(|event| event.what == "start");
    starts.filter_map(|start| Some((start.at - *committed.get(&start.number)?).as_seconds_f64())).collect()
}
