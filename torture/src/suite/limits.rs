//! Limits: all jobs have limits, while workers are killed and suspended, and the server crashes.
//!
//! After every commit, no key has more jobs available or running than its limit allows, and exactly these jobs have a
//! permit. No permit stays free while a job waits for it. Only nudges report free permits here: the sweep over the keys
//! and the notifications are switched off. A tenth of the jobs has two limits. At the end no job is held, and no permit
//! or nudge is left.

mod couples;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::Client;
use torture::checker::Promise;
use torture::history::{CRASH, fault};
use torture::workload::{BUSY_KEYS, Mix, Shape, Work, Workload};

use super::bodies::overlapping;
use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::load::Load;
use super::run::Run;
use super::suspended::{HEIR_MILLIS, Suspended};
use super::watch::Watch;

const SHORT: Size = Size { jobs: 4_000, faults: 16 };
const LONG: Size = Size { jobs: 30_000, faults: 200 };
const WORKERS: usize = 4;
const DRAINED: Duration = Duration::from_secs(60);
const CALM_MILLIS: std::ops::Range<u64> = 50..450;
/// The pause after each action of the application, so that the jobs come while workers are killed. All at once they
/// would keep two processors so busy that a pass of admission takes longer than [`FREE`].
const PAUSE: Duration = Duration::from_millis(12);
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 8;
/// The jobs of the worker that is suspended.
const ZOMBIES_JOBS: i64 = 16;
/// How long a permit may stay free while the same job is the next to get it. Hints within a process may be lost, but
/// there is a pass of admission each second.
const FREE: Duration = Duration::from_millis(1_500);
/// Then, without a load and without faults, jobs are enqueued for this time at about the time at which the permit that
/// they need gets free. Admission is quick then, so that it often comes between a finish and its commit.
const CALM: Duration = Duration::from_secs(5);
/// Passes of admission do not search the keys in turns.
pub(super) const NO_SWEEP: (&str, &str) =
    ("> (place.after_name, place.after_key)", "> (place.after_name, place.after_key) and false");
/// What the [`Watch`] looks for.
pub(super) const LOOK: &str = "with live as (
    select id, r ->> 'name' as name, r ->> 'key' as key, (r #>> '{rule,concurrency,most}')::integer as most from (
        select id, rules from jobs.ready where rules is not null union all select id, rules from jobs.running where rules is not null
    ) job cross join lateral json_array_elements(rules) r
), at_limits as (
    select jobs.lane(rules) as key from jobs.held where flags & 132 = 128 and limit_name <> '' and not later and not paused
), waiting as (
    select limit_name as name, limit_key as key, max(most) as most,
           (array_agg(id order by ~priority, run_at, id))[1]::text as next
    from jobs.held
    where run_at < clock_timestamp() and (limit_name <> '' or limit_key not in (select key from at_limits)) group by limit_name, limit_key
), permit as (
    select limit_name as name, limit_key as key, count(*) as permits, array_agg(job_id order by job_id)::text as jobs
    from jobs.permit group by limit_name, limit_key
)
select 'more jobs than the limit allows', name || key, count(*)::text from live group by name, key having count(*) > max(most)
union all
select 'a job without a permit', name || key, id::text from live l where not exists (select from jobs.permit s where s.job_id = l.id and s.limit_name = l.name)
union all
select 'a permit without a job', limit_name || limit_key, job_id::text from jobs.permit s where not exists (select from live l where l.id = s.job_id and l.name = s.limit_name)
union all
select 'free', w.name || w.key, w.next || coalesce(' ' || s.jobs, '') from waiting w left join permit s on s.name = w.name and s.key = w.key
where coalesce(s.permits, 0) < w.most";

/// What must be gone at the end.
pub(super) const LEFT: &str =
    "select (select count(*) from jobs.held) + (select count(*) from jobs.permit) + (select count(*) from jobs.nudge)";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    let conn = fixture.connect().await?;
    switch_sweep_off(&conn, NO_SWEEP).await?;
    conn.batch_execute(couples::COMMIT_LATE).await?;
    let database = fixture.database();
    conn.batch_execute(&format!("alter database \"{database}\" set jobs.notify = off")).await?;
    let work = |number| Work::new(number, Shape::Async).and_later(HEIR_MILLIS).limited("busy", number % BUSY_KEYS, 2);
    let mut zombie = Suspended::with(fixture, &conn, (1..=ZOMBIES_JOBS).map(work).collect()).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, LOOK, FREE);
    let mix = Mix { limits: true, ..Mix::default() };
    let workload = Workload::new(fixture.seed, mix, size.jobs).from(ZOMBIES_JOBS + 1);
    let load = Load::start(fixture.url(), workload, PAUSE);
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
    // Mutants get the same time. Otherwise they would be noticed because jobs are still under way.
    let mut drained = fixture.at_rest_or_stuck(DRAINED).await?;
    if drained {
        ledger.extend(couples::enqueue_for(fixture, CALM).await?);
        drained = fixture.at_rest_or_stuck(DRAINED).await?;
    }
    let found = watch.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let (at_once, beyond) = overlapping(&conn).await?;
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!("{}, {WORKERS} workers x 16 slots, {} looks", run.load, found.looks);
    run.faults = size.faults + 1;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the permits: nothing was tested", found.looks));
    run.expect(zombie.is_awake(), || "the suspended worker was never woken: nothing was tested".to_owned());
    run.expect(left == 0, || format!("{left} held jobs, permits or nudges are left"));
    run.expect(at_once > 0, || "no two handlers of a key ran at once: nothing was tested".to_owned());
    run.expect(beyond == 0, || format!("the handlers of {beyond} keys overlapped beyond the limit"));
    for complaint in found.complaints {
        run.expect(false, || complaint);
    }
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Changes the text of `jobs.sweep`, so that passes of admission find only the keys that have a nudge.
pub(super) async fn switch_sweep_off(conn: &Client, (from, to): (&str, &str)) -> Result<()> {
    let text: String = conn
        .query_one("select pg_get_functiondef('jobs.sweep(text[],text[],integer)'::regprocedure)", &[])
        .await?
        .get(0);
    ensure!(text.contains(from), "jobs.sweep has changed: the sweep cannot be switched off");
    conn.batch_execute(&text.replace(from, to)).await.context("cannot switch the sweep off")
}
