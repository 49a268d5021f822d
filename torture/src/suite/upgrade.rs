//! Upgrade: the database has the schema of the next version. That schema has one more column in the tables through
//! which jobs move, and a flag for jobs that use the column. Workers of this version and of the next run in parallel,
//! and workers of the next are killed.
//!
//! Nothing is lost. This version runs no job with the flag. No such job loses the content of the new column.
//!
//! The next version is this one behind a proxy that inserts the column and the flag into its statements.

use std::time::Duration;

use anyhow::Result;
use torture::checker::Promise;
use torture::proxy::Proxy;
use torture::workload::{Mix, Workload};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;

const SHORT: Size = Size { jobs: 400, faults: 1 };
const LONG: Size = Size { jobs: 20_000, faults: 20 };
const WORKERS: usize = 2;
const ARGS: [&str; 6] = ["--slots", "8", "--poll-interval", "200ms", "--max-crashes", "1000"];
const CALM: Duration = Duration::from_millis(700);
const REST: Duration = Duration::from_secs(60);
/// The migration of the next version, and a trigger in place of an application that uses the column for every other
/// job.
const MIGRATION: &str = "alter table jobs.ready add column extra text;
    alter table jobs.running add column extra text;
    alter table jobs.finished add column extra text;
    alter table jobs.held add column extra text;
    insert into jobs.schema_migration (version, name, oldest_program)
        select max(version) + 1, 'next', max(version) from jobs.schema_migration;
    create function public.use_it() returns trigger language plpgsql as $$
    begin new.flags := 1024; new.extra := 'kept ' || new.id; return new; end $$;
    create trigger use_it before insert on jobs.ready
        for each row when (new.lease = 0 and new.id % 2 = 0) execute function public.use_it()";
const NEXT: [(&str, &str); 2] =
    [("flags & ~511)", "flags & ~1535)"), ("enqueued_at, flags, priority", "enqueued_at, flags, extra, priority")];
const STRIPPED: &str =
    "select count(*) from jobs.finished where id % 2 = 0 and (flags, extra) is distinct from (1024, 'kept ' || id)";
const FLAGGED: &str = "select count(*) from jobs.finished where flags = 1024";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    conn.batch_execute(MIGRATION).await?;
    let line = Proxy::start(fixture.cluster.port()).await?;
    let rules = NEXT.map(|(from, to)| line.reword(from, to));
    let now = Fleet::start(fixture, fixture.worker_url(), History::Quick, &ARGS, WORKERS).await?;
    let mut next = Fleet::start(fixture, fixture.url_through(line.port()), History::Quick, &ARGS, WORKERS).await?;
    let load =
        Load::start(fixture.url(), Workload::new(fixture.seed, Mix::default(), size.jobs), Duration::from_millis(3));
    for time in 0..size.faults {
        tokio::time::sleep(CALM).await;
        next.kill(time % WORKERS, &conn).await?;
    }
    let ledger = load.ended().await?.ledger();
    let drained = fixture.at_rest(REST).await?;
    let (stripped, flagged) = (number(&conn, STRIPPED).await?, number(&conn, FLAGGED).await?);
    let mut run = Run::check(fixture, &ledger, Promise::default()).await?;
    run.load = format!("{}, {WORKERS} workers of this version and {WORKERS} of the next", run.load);
    run.faults = size.faults;
    run.recovery = super::recovery::of_crashes(&run.record);
    let pids: Vec<i32> = now.ids().into_iter().map(u32::cast_signed).collect();
    let flagged_numbers: Vec<i64> =
        run.record.jobs.iter().filter(|job| job.id % 2 == 0).map(|job| job.number).collect();
    let strange = run.record.events.iter().filter(|event| pids.contains(&event.pid));
    let strange = strange.filter(|event| flagged_numbers.contains(&event.number)).count();
    let own = run.record.events.iter().filter(|event| pids.contains(&event.pid)).count();
    run.expect(drained, || format!("not drained after {REST:?}"));
    run.expect(stripped == 0, || format!("{stripped} jobs lost what the next version had stored with them"));
    run.expect(strange == 0, || format!("this version ran jobs of the next {strange} times"));
    run.expect(flagged > 0 && own > 0, || "there were no jobs of one of the versions: nothing was tested".to_owned());
    run.expect(rules.iter().all(|rule| rule.count() > 0), || {
        "the next version is no other: its words have changed".to_owned()
    });
    if drained {
        next.stop().await?;
        now.stop().await?;
    }
    Ok(run)
}
