//! Limits: all jobs have limits, while workers are killed and suspended, and the server crashes.
//!
//! After every commit, no key has more jobs available or running than its limit allows, and exactly these jobs have a slot.
//! No free slot stands beside a job that waits for it, although nothing but nudges tells of free slots: the sweep over the
//! keys is switched off, and so are notifications. At the end no job is held, and no slot or nudge is left.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use torture::checker::Promise;
use torture::history::{CRASH, Enqueued, fault};
use torture::workload::{Application, BUSY_KEYS, Deed, Mix, Shape, Work, Workload};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use super::suspended::{HEIR_MILLIS, Suspended};
use super::watch::Watch;

const SHORT: Size = Size { jobs: 4_000, faults: 16 };
const LONG: Size = Size { jobs: 60_000, faults: 200 };
const WORKERS: usize = 4;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 50..450;
/// After so many kills the server crashes.
const KILLS_PER_CRASH: usize = 8;
/// The jobs of the worker that is suspended.
const ZOMBIES_JOBS: i64 = 16;
/// How long a free slot may stand beside a job that waits for it. A pass of admission each second backs up hints within a process.
const FREE: Duration = Duration::from_millis(1_500);
/// Couples of jobs with a key of their own: the second one is enqueued at about the time at which the first one ends. Nobody else tells
/// admission about their key.
const COUPLERS: i64 = 4;
const COUPLED_MILLIS: std::ops::Range<u64> = 0..150;
/// The range of job numbers of those who enqueue them.
const EACH: i64 = 1_000_000;
/// Passes of admission do not search the keys in turns.
const NO_SWEEP: (&str, &str) =
    ("> (place.after_name, place.after_key)", "> (place.after_name, place.after_key) and false");
/// What the [`Watch`] looks for.
const LOOK: &str = "with live as (
    select id, flow ->> 'limit' as name, flow ->> 'key' as key, (flow ->> 'most')::integer as most from jobs.ready where flow is not null
    union all
    select id, flow ->> 'limit', flow ->> 'key', (flow ->> 'most')::integer from jobs.running where flow is not null
), waiting as (
    select limit_name as name, limit_key as key, max(most) as most, count(*) as jobs from jobs.held
    where run_at < clock_timestamp() group by limit_name, limit_key
), slot as (
    select limit_name as name, limit_key as key, count(*) as slots, array_agg(job_id order by job_id)::text as jobs
    from jobs.slot group by limit_name, limit_key
)
select 'more jobs than the limit allows', name || key, count(*)::text from live group by name, key having count(*) > max(most)
union all
select 'a job without a slot', name || key, id::text from live l where not exists (select from jobs.slot s where s.job_id = l.id)
union all
select 'a slot without a job', limit_name || limit_key, job_id::text from jobs.slot s where not exists (select from live l where l.id = s.job_id)
union all
select 'free', w.name || w.key, w.jobs::text || coalesce(s.jobs, '') from waiting w left join slot s on s.name = w.name and s.key = w.key
where coalesce(s.slots, 0) < w.most";

/// What must be gone at the end.
const LEFT: &str =
    "select (select count(*) from jobs.held) + (select count(*) from jobs.slot) + (select count(*) from jobs.nudge)";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    switch_sweep_off(&conn, NO_SWEEP).await?;
    let database = fixture.database();
    conn.batch_execute(&format!("alter database \"{database}\" set jobs.notify = off")).await?;
    let work = |number| Work::new(number, Shape::Async).and_later(HEIR_MILLIS).limited("busy", number % BUSY_KEYS, 2);
    let mut zombie = Suspended::with(fixture, &conn, (1..=ZOMBIES_JOBS).map(work).collect()).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--concurrency", "16", "--poll", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture.url(), LOOK, FREE);
    let mix = Mix { limits: true, ..Mix::default() };
    let workload = Workload::new(fixture.seed, mix, size.jobs).from(ZOMBIES_JOBS + 1);
    let load = Load::start(fixture.url(), workload, Duration::ZERO);
    let (mut couples, stop) = (JoinSet::new(), CancellationToken::new());
    for place in 1..=COUPLERS {
        couples.spawn(enqueue_couples(fixture.url(), fixture.seed, place, stop.clone()));
    }
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &fixture.connect().await?).await?;
        zombie.wake_when_due()?;
        if kill % KILLS_PER_CRASH == 0 && zombie.is_awake() {
            // A worker that starts without a server ends with an error.
            fleet.at_work().await?;
            fault(&fixture.connect().await?, CRASH, None).await?;
            fixture.cluster.crash()?;
            fixture.cluster.restart()?;
        }
    }
    let mut ledger = load.ended().await?.ledger();
    ledger.extend(zombie.ledger());
    stop.cancel();
    while let Some(couples) = couples.join_next().await {
        ledger.extend(couples??);
    }
    // Mutants get the whole time, too. Otherwise they would be noticed because jobs are still under way.
    let drained = fixture.at_rest_within(DRAINED).await?;
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let most = most_bodies(&conn).await?;
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots, {} looks", run.load, found.looks);
    run.faults = size.faults + 1;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the slots: nothing was tested", found.looks));
    run.expect(zombie.is_awake(), || "the suspended worker was never woken: nothing was tested".to_owned());
    run.expect(left == 0, || format!("{left} held jobs, slots or nudges are left"));
    run.expect(most.0 > 0, || "no two handlers of a key ran at once: nothing was tested".to_owned());
    run.expect(most.1 == 0, || format!("the handlers of {} keys overlapped beyond the limit", most.1));
    for complaint in found.complaints {
        run.expect(false, || complaint);
    }
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

async fn enqueue_couples(url: String, seed: u64, place: i64, stop: CancellationToken) -> Result<Vec<Enqueued>> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(place.unsigned_abs()));
    let mut application = Application::new(url);
    let mut next = place * EACH;
    while !stop.is_cancelled() {
        let key = next;
        for _ in 0..2 {
            next += 1;
            // They need not wait behind all other jobs.
            let work = Work { priority: 1, ..Work::new(next, Shape::Async).limited("couple", key, 1) };
            application.perform(&Deed::Single(work)).await?;
            tokio::time::sleep(Duration::from_millis(rng.random_range(COUPLED_MILLIS))).await;
        }
    }
    Ok(application.ledger())
}

/// Changes the text of `jobs.sweep`, so that passes of admission find no keys of which nothing but a nudge tells.
pub(super) async fn switch_sweep_off(conn: &Client, (from, to): (&str, &str)) -> Result<()> {
    let text: String =
        conn.query_one("select pg_get_functiondef('jobs.sweep(text[],text[])'::regprocedure)", &[]).await?.get(0);
    ensure!(text.contains(from), "jobs.sweep has changed: the sweep cannot be switched off");
    conn.batch_execute(&text.replace(from, to)).await.context("cannot switch the sweep off")
}

/// The number of keys whose handlers have overlapped, and of those whose handlers have overlapped beyond the limit. Attempts without
/// an end, of suspended workers, and during a crash of the server do not count: their leases were lost.
async fn most_bodies(conn: &Client) -> Result<(i64, i64)> {
    let sql = format!(
        "with body as (
            select j.flow ->> 'limit' as name, j.flow ->> 'key' as key, (j.flow ->> 'most')::integer as most,
                   min(e.at) filter (where e.what = 'start') as begun, max(e.at) filter (where e.what <> 'start') as ended
            from torture.event e join jobs.job j on j.id = e.job
            where e.pid not in (select pid from torture.fault where what = 'stop')
            group by e.job, e.lease, e.worker, j.flow ->> 'limit', j.flow ->> 'key', j.flow ->> 'most'
        ), sound as (
            select * from body where begun < ended
            and not exists (select from torture.fault f where f.what = '{CRASH}' and f.at between begun and ended)
        ), step as (
            select name, key, most, begun as at, 1 as change from sound
            union all select name, key, most, ended, -1 from sound
        ), sum as (
            select name, key, most, sum(change) over (partition by name, key order by at, change) as running from step
        ), key as (
            select name, key, max(running) as peak, max(most) as most from sum group by name, key
        )
        select count(*) filter (where peak > 1), count(*) filter (where peak > most) from key"
    );
    let row = conn.query_one(&sql, &[]).await?;
    Ok((row.get(0), row.get(1)))
}
