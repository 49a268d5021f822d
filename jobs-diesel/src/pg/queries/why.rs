//! `surroundings`: what explains why a job does not run. It locks no rows. It finds the job by its id, and counts the
//! jobs before it level by level in the index of the claim. With any number of waiting jobs, it reads at most a
//! thousand entries, one per level, and those of the running jobs.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Integer, Json, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{
    HeldBy, MOST_AHEAD, MOST_SHOWN, MOST_TENANTS, RowLock, RunningJob, Surroundings, Tokens,
};
use diesel_jobs_core::{Freeze, JobId, Rules, WorkerId};
use uuid::Uuid;

use super::{sequence, why_several};
use crate::pg::native::RawJson;

/// A session that has locked a row has written its transaction's number into it, and holds a lock on that number. A
/// lock that several sessions share is not found.
const PLACE: &str = "
with job as (
    select queue, priority, run_at, xmax, true as waits, flags & 32 <> 0 and attempt = 0 as expires from jobs.ready where id = $1
    union all
    select queue, priority, run_at, xmax, false, false from jobs.running where id = $1
    union all
    select queue, priority, run_at, xmax, false, flags & 32 <> 0 and attempt = 0 from jobs.held where id = $1
), locker as (
    select l.pid, coalesce(p.gid, nullif(a.application_name, ''), a.usename, 'unnamed') as name, coalesce(p.prepared, a.xact_start) as since
    from pg_locks l
    left join pg_stat_activity a on a.pid = l.pid
    left join pg_prepared_xacts p on p.transaction = l.transactionid
    where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
      and l.transactionid = (select xmax from job limit 1)
    limit 1
)
select now() as now,
       greatest((select max(id) from jobs.ready), (select max(id) from jobs.held), (select max(id) from jobs.running), (select max(id) from jobs.finished)) as highest,
       i.frozen_at, i.frozen_by, i.frozen_reason,
       letter.reason as letter, letter.at as letter_at,
       (select max(e.start_by) from jobs.expiry e where e.job_id = $1 and job.expires) as start_by,
       job.queue, job.priority, case when job.waits and job.run_at <= now() then job.run_at end as due_at,
       locker.pid, locker.name as locker, locker.since
from (select) one
left join jobs.installation i on true
left join lateral (select reason, at from jobs.dead_letter where id = $1 order by number desc limit 1) letter on true
left join lateral (select * from job limit 1) job on true
left join locker on true";

#[derive(QueryableByName)]
struct PlaceRow {
    #[diesel(sql_type = Timestamptz)]
    now: DateTime<Utc>,
    #[diesel(sql_type = Nullable<BigInt>)]
    highest: Option<i64>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    frozen_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    frozen_by: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    frozen_reason: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    letter: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    letter_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    start_by: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    queue: Option<String>,
    #[diesel(sql_type = Nullable<SmallInt>)]
    priority: Option<i16>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    due_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Integer>)]
    pid: Option<i32>,
    #[diesel(sql_type = Nullable<Text>)]
    locker: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    since: Option<DateTime<Utc>>,
}

/// `$1` is the queue, `$2` the priority, `$3` the time and `$4` the id of the job. Jobs of a higher priority come first
/// if they are due.
const AHEAD: &str = "
with recursive level (priority) as (
    (select r.priority from jobs.ready r where r.queue = $1 order by r.priority desc limit 1)
    union all
    select (select r.priority from jobs.ready r
            where r.queue = $1 and r.priority < level.priority and r.priority >= $2 order by r.priority desc limit 1)
    from level where level.priority is not null
)
select count(*) as number from (
    select from level cross join lateral (
        select from jobs.ready r
        where r.queue = $1 and r.priority = level.priority
          and (r.run_at, r.id) < (case when level.priority > $2 then now() else $3 end, case when level.priority > $2 then 9223372036854775807 else $4 end)
        limit $5
    ) job
    where level.priority >= $2 limit $5
) ahead";

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

const RUNNING: &str = "
select id, kind, queue, attempt, claimed_at, count(*) over () as number from jobs.running where queue = $1 order by claimed_at, id limit $2";

/// In the order of the workers, so that two calls return the same.
const BUSY: &str = "select worker, count(*) as number from jobs.running group by worker order by worker";

#[derive(QueryableByName)]
struct BusyRow {
    #[diesel(sql_type = SqlUuid)]
    worker: Uuid,
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(QueryableByName)]
struct RunningRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = SmallInt)]
    attempt: i16,
    #[diesel(sql_type = Timestamptz)]
    claimed_at: DateTime<Utc>,
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// `$1` is the id of a held job. The others are limits: `$2` for the holders that are named, `$3` for the jobs before
/// it that are counted, `$4` for the tenants that are counted.
const HELD: &str = "
select h.rules,
       (select count(*) from jobs.permit s where s.limit_name = h.limit_name and s.limit_key = h.limit_key) as taken,
       array(select s.job_id from jobs.permit s where s.limit_name = h.limit_name and s.limit_key = h.limit_key order by s.job_id limit $2) as holders,
       case when h.flags & 256 <> 0 then (select count(*) from (
           select from jobs.held o where o.limit_name = h.limit_name and o.limit_key = h.limit_key and not o.later and not o.paused and o.flags & 256 <> 0
             and (o.rules #>> '{0,tenant}') collate \"C\" = h.rules #>> '{0,tenant}' and (~o.priority, o.run_at, o.id) < (~h.priority, h.run_at, h.id) limit $3
       ) ahead) when h.flags & 8 <> 0 then (select count(*) from (
           select from jobs.held o where o.limit_name = h.limit_name and o.limit_key = h.limit_key and not o.later and not o.paused and o.flags & 8 <> 0
             and (~o.priority, o.run_at, o.id) < (~h.priority, h.run_at, h.id) limit $3
       ) ahead) when h.flags & 4 = 0 then (select count(*) from (
           select from jobs.held o where o.limit_name = h.limit_name and o.limit_key = h.limit_key and not o.later and not o.paused and o.flags & 12 = 0
             and (~o.priority, o.run_at, o.id) < (~h.priority, h.run_at, h.id) limit $3
       ) ahead) else (select count(*) from (
           select from jobs.held o where o.limit_name = h.limit_name and o.limit_key = h.limit_key and o.flags & 4 <> 0 and o.id < h.id limit $3
       ) ahead) end as ahead,
       case when h.flags & 256 <> 0 then (
           select count(*) from jobs.next_tenants(h.limit_name, h.limit_key, '', false, $4) t where t.tenant <> h.rules #>> '{0,tenant}'
       ) end as other_tenants,
       case when h.flags & 4 <> 0 then (select n.id from jobs.next_in_sequence(h.limit_name, h.limit_key) n) end as next,
       halted.halted_at, halted.job_id as halted_by, now() as now,
       (select (extract(epoch from r.full_at - now()) * 1000000)::bigint from jobs.rate r where r.limit_name = h.limit_name and r.limit_key = h.limit_key) as lack
from jobs.held h left join lateral (
    select s.halted_at, s.job_id from jobs.permit s
    where s.limit_name = h.limit_name and s.limit_key = h.limit_key and s.halted_at is not null limit 1
) halted on true
where h.id = $1 and h.run_at <= now() limit 1";

#[derive(QueryableByName)]
struct HeldRow {
    #[diesel(sql_type = Json)]
    rules: RawJson,
    #[diesel(sql_type = BigInt)]
    taken: i64,
    #[diesel(sql_type = Array<BigInt>)]
    holders: Vec<i64>,
    #[diesel(sql_type = BigInt)]
    ahead: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    other_tenants: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    next: Option<i64>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    halted_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<BigInt>)]
    halted_by: Option<i64>,
    #[diesel(sql_type = Timestamptz)]
    now: DateTime<Utc>,
    #[diesel(sql_type = Nullable<BigInt>)]
    lack: Option<i64>,
}

impl HeldRow {
    async fn into_held(self, conn: &mut AsyncPgConnection) -> QueryResult<HeldBy> {
        let rules = Rules::read(&self.rules.0).map_err(|error| Error::DeserializationError(error.into()))?;
        let Some(rule) = rules.iter().next().cloned() else { return Err(Error::NotFound) };
        let ahead = u32::try_from(self.ahead).unwrap_or_default();
        let tokens = Tokens::of(rule.rule, self.lack.unwrap_or_default(), ahead, self.now);
        Ok(HeldBy {
            tokens: tokens.filter(|_| !rules.are_several()),
            set: why_several::setting(conn, &rule).await?,
            taken: self.taken.unsigned_abs(),
            holders: self.holders.into_iter().map(JobId).collect(),
            ahead,
            other_tenants: self.other_tenants.map(|tenants| u32::try_from(tenants).unwrap_or_default()),
            next: self.next.map(JobId),
            halted: self.halted_at.zip(self.halted_by.map(JobId)),
            several: why_several::each(conn, &rules).await?,
            now: self.now,
            rule,
        })
    }
}

pub(crate) async fn surroundings(conn: &mut AsyncPgConnection, id: JobId) -> QueryResult<Surroundings> {
    let place: PlaceRow = sql_query(PLACE).bind::<BigInt, _>(id.0).get_result(conn).await?;
    let freeze = |at| Freeze {
        at,
        by: place.frozen_by.clone().unwrap_or_default(),
        reason: place.frozen_reason.clone().unwrap_or_default(),
    };
    let mut around = Surroundings {
        now: place.now,
        highest: place.highest.map(JobId),
        frozen: place.frozen_at.map(freeze),
        dead_letter: place.letter.zip(place.letter_at),
        start_by: place.start_by,
        lock: place.locker.map(|name| RowLock { pid: place.pid, name, since: place.since }),
        halts: sequence::halted_by(conn, id).await?,
        ..Surroundings::default()
    };
    let held: Vec<HeldRow> = sql_query(HELD)
        .bind::<BigInt, _>(id.0)
        .bind::<BigInt, _>(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
        .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
        .bind::<BigInt, _>(i64::from(MOST_TENANTS) + 2)
        .load(conn)
        .await?;
    if let Some(held) = held.into_iter().next() {
        around.held = Some(held.into_held(conn).await?);
    }
    if let (Some(queue), Some(priority), Some(due_at)) = (&place.queue, place.priority, place.due_at) {
        let ahead: Number = sql_query(AHEAD)
            .bind::<Text, _>(queue)
            .bind::<SmallInt, _>(priority)
            .bind::<Timestamptz, _>(due_at)
            .bind::<BigInt, _>(id.0)
            .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
            .get_result(conn)
            .await?;
        around.ahead = u32::try_from(ahead.number).unwrap_or(u32::MAX);
        let shown = i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX);
        let running: Vec<RunningRow> =
            sql_query(RUNNING).bind::<Text, _>(queue).bind::<BigInt, _>(shown).load(conn).await?;
        around.running_count = running.iter().map(|row| row.number.unsigned_abs()).max().unwrap_or_default();
        around.running = running.into_iter().map(RunningRow::into_job).collect();
        let busy: Vec<BusyRow> = sql_query(BUSY).load(conn).await?;
        around.busy = busy.into_iter().map(|row| (WorkerId(row.worker), row.number.unsigned_abs())).collect();
    }
    Ok(around)
}

impl RunningRow {
    fn into_job(self) -> RunningJob {
        let Self { id, kind, queue, attempt, claimed_at, .. } = self;
        RunningJob { id: JobId(id), kind, queue, attempt: attempt.unsigned_abs(), claimed_at }
    }
}
