//! Rates: all jobs have a rate, while workers are killed and the server crashes.
//!
//! In any period, no key has more admissions than its burst plus the tokens of this period. Each admission moves the
//! time at which the key has all its tokens again forward by one token. This time is never further away than the burst.
//! A trigger records both in the transaction that admits, so a crash that loses an admission loses its record, too. No
//! token stays unused while a job waits for it, although sweeps and notifications are switched off. At the end no job
//! is held, and no permit or nudge is left.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CRASH, fault};
use torture::workload::{BURST, Mix, RATE, RATE_KEYS, Workload};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::limits::{LEFT, switch_sweep_off};
use super::load::Load;
use super::run::Run;
use super::watch::Watch;

const SHORT: Size = Size { jobs: 3_000, faults: 16 };
/// There are 400 tokens a second, and most jobs need one. Some fail or snooze, and need up to three.
const LONG: Size = Size { jobs: 30_000, faults: 200 };
const WORKERS: usize = 4;
const CALM_MILLIS: std::ops::Range<u64> = 50..450;
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 8;
/// All tokens of the jobs, and then some time for those that a killed worker held.
const DRAINED: Duration = Duration::from_secs(90);
/// How long a token may be there beside a job that waits for it.
const FREE: Duration = Duration::from_millis(1_500);
/// Passes of admission do not search the keys in turns.
const NO_SWEEP: (&str, &str) =
    ("> (place.after_rate, place.after_rate_key)", "> (place.after_rate, place.after_rate_key) and false");

/// What the [`Watch`] looks for.
const LOOK: &str = "with waiting as (
    select distinct limit_name as name, limit_key as key from jobs.held
    where flags & 8 <> 0 and not later and not paused and run_at < clock_timestamp()
)
select 'free', w.name || w.key, coalesce(r.full_at::text, '') from waiting w
left join jobs.rate r on r.limit_name = w.name and r.limit_key = w.key
where coalesce(r.full_at <= clock_timestamp() + interval '60 milliseconds', true)
union all
select 'a permit of a job with a rate', limit_name || limit_key, job_id::text from jobs.permit";
const _: () = assert!((BURST - 1) * 1000 / RATE == 60, "the query above names the time of all tokens but one");

/// Records each admission: only admission deletes rows of jobs.held here, and it spends the tokens before.
const RECORD: &str = "create table torture.admission (key text not null, at timestamptz not null, full_at timestamptz not null);
create function torture.record_admission() returns trigger language plpgsql security definer as $do$ begin
    insert into torture.admission (key, at, full_at)
    select r.limit_key, clock_timestamp(), r.full_at from jobs.rate r where r.limit_name = old.limit_name and r.limit_key = old.limit_key;
    return null;
end $do$;
create trigger record_admission after delete on jobs.held for each row execute function torture.record_admission()";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    switch_sweep_off(&conn, NO_SWEEP).await?;
    conn.batch_execute(RECORD).await?;
    let database = fixture.database();
    conn.batch_execute(&format!("alter database \"{database}\" set jobs.notify = off")).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, LOOK, FREE);
    let mix = Mix { rates: true, ..Mix::default() };
    let load = Load::start(fixture.url(), Workload::new(fixture.seed, mix, size.jobs), Duration::ZERO);
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
    let ledger = load.ended().await?.ledger();
    let drained = fixture.at_rest_within(DRAINED).await?;
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let Seen { admissions, keys, most, too_fast, too_many } = seen(&conn).await?;
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots, {admissions} admissions, {} looks", run.load, found.looks);
    run.faults = size.faults + size.faults / KILLS_PER_CRASH;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the tokens: nothing was tested", found.looks));
    run.expect(left == 0, || format!("{left} held jobs, permits or nudges are left"));
    run.expect(keys == RATE_KEYS, || format!("{keys} of {RATE_KEYS} keys had admissions: too little was tested"));
    run.expect(most > 1, || "no two jobs of a key were admitted at once: nothing was tested".to_owned());
    run.expect(too_fast == 0, || format!("{too_fast} times more jobs were admitted than tokens spent"));
    run.expect(too_many == 0, || format!("{too_many} times more tokens were spent than there were"));
    for complaint in found.complaints {
        run.expect(false, || complaint);
    }
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// What the trigger has recorded.
struct Seen {
    admissions: i64,
    keys: i64,
    /// The most jobs of a key that one pass has admitted.
    most: i64,
    /// How often a pass admitted more jobs of a key than it spent tokens.
    too_fast: i64,
    /// How often a pass spent more tokens of a key than there were.
    too_many: i64,
}

async fn seen(conn: &Client) -> Result<Seen> {
    let sql = format!(
        "with pass as (
            select key, full_at, count(*) as jobs, max(at) as at from torture.admission group by key, full_at
        ), step as (
            select *, extract(epoch from full_at - lag(full_at) over (partition by key order by full_at)) * {RATE} as spent,
                   extract(epoch from full_at - at) * {RATE} as lack from pass
        )
        select coalesce(sum(jobs), 0)::bigint, count(distinct key), coalesce(max(jobs), 0)::bigint,
               count(*) filter (where spent < jobs - 0.001), count(*) filter (where lack > {BURST} + 0.001) from step"
    );
    let row = conn.query_one(&sql, &[]).await?;
    let (admissions, keys, most) = (row.get(0), row.get(1), row.get(2));
    Ok(Seen { admissions, keys, most, too_fast: row.get(3), too_many: row.get(4) })
}
