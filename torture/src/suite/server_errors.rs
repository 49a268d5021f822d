//! Server errors: each statement that moves a job fails now and then with an error that servers return under load
//! (serialization failure, deadlock, statement timeout, disk full). Then, for several seconds, all of them fail.
//!
//! Nothing is lost, and nothing is done twice. No worker ends, and none sends statements without a pause.

use std::time::{Duration, Instant};

use anyhow::Result;
use torture::checker::Promise;
use torture::history::fault;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

/// The number of jobs, and how often everything fails for a while.
const SHORT: Size = Size { jobs: 1_500, faults: 1 };
const LONG: Size = Size { jobs: 50_000, faults: 10 };
const WORKERS: usize = 2;
/// How long everything fails.
const OUTAGE: Duration = Duration::from_secs(5);
/// The number of refused statements per second that one worker may send. Each of its operations pauses before it tries
/// again, so they are not more.
const A_SECOND: i64 = 60;
const REST: Duration = Duration::from_secs(90);
/// Raises errors in the transactions that move jobs. They are counted with a sequence, which a rollback does not reset.
const SPOILED: &str = "
    create table torture.spoiled (share float8 not null);
    insert into torture.spoiled values (0.03);
    create sequence torture.refused;
    create function torture.spoil() returns trigger language plpgsql as $$
    begin
        if random() < (select share from torture.spoiled) then
            perform nextval('torture.refused');
            raise exception 'spoiled' using errcode = (array['40001', '40P01', '57014', '53100'])[1 + floor(random() * 4)::int];
        end if;
        return null;
    end $$;
    create trigger spoil before delete on jobs.ready for each statement execute function torture.spoil();
    create trigger spoil before delete on jobs.running for each statement execute function torture.spoil();";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    conn.batch_execute(SPOILED).await?;
    let args = ["--slots", "16", "--poll-interval", "200ms"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Quick, &args, WORKERS).await?;
    let load =
        Load::start(fixture.url(), Workload::new(fixture.seed, Mix::default(), size.jobs), Duration::from_millis(1));
    let refused = "select case when is_called then last_value else 0 end from torture.refused";
    let mut hammered = 0;
    for _ in 0..size.faults {
        tokio::time::sleep(Duration::from_secs(2)).await;
        fault(&conn, "everything fails", None).await?;
        conn.batch_execute("update torture.spoiled set share = 1").await?;
        // The statements in progress and the first retries are not counted.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = number(&conn, refused).await?;
        let begun = Instant::now();
        tokio::time::sleep(OUTAGE).await;
        let refused = number(&conn, refused).await? - before;
        // A busy machine sleeps longer.
        hammered = hammered.max(refused.div_euclid(i64::try_from(begun.elapsed().as_secs())?.max(1)));
        conn.batch_execute("update torture.spoiled set share = 0.03").await?;
    }
    let ledger = load.ended().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let dead = fleet.dead()?;
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots", run.load);
    run.faults = usize::try_from(number(&conn, refused).await?)?;
    let most = A_SECOND * i64::try_from(WORKERS)?;
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(dead.is_empty(), || format!("workers ended: processes {dead:?}"));
    run.expect(hammered > 0, || "nothing was refused: nothing was tested".to_owned());
    run.expect(hammered <= most, || {
        format!("{hammered} statements a second were refused, and at most {most} should be")
    });
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}
