//! The part of `complete` that frees the permits of completed jobs. It passes them on: the first held jobs of the same
//! keys get them at once and become available, as a pass of admission would decide. The number of permits that are
//! taken stays the same, so this needs no lock of admission, and it needs no pass. A key that keeps a free permit is
//! nudged.
//!
//! Admission decides alone about jobs in a sequence, with a rate, with tenants or with several limits, about paused
//! queues and kinds, about keys with more than [`MOST_PERMITS`] permits, and about one in [`LEFT_TO_ADMISSION`] jobs.
//! So only the jobs of a key before the first such job get a permit, and only they are locked. If the database refuses
//! to make one of them available, the whole statement fails, and the caller frees the permits with `finish`.
//!
//! The worker may ask for these jobs at once ([`ClaimNext`]). Then no claim is needed for them, and they are never rows
//! of `jobs.ready`.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Integer, Text, Uuid as SqlUuid};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::flags::EXPIRES;
use diesel_jobs_core::storage::{Claim, Wanted};

use super::claim::CLAIMED;
use super::columns::{CARRIED, READY, RUNNING};
use crate::pg::native::sql;

/// The flags of a held job to which a permit may be passed on. The others are those of sequences, rates, several
/// limits, tenants and newer programs.
const SIMPLE: &str = "115";

/// One in this many jobs is left to admission, which then writes a floor for its key (`jobs.free_jobs`). Without floors
/// each statement would read the index entries of all jobs that have started before. With a smaller number a key would
/// wait for a pass of admission more often.
const LEFT_TO_ADMISSION: &str = "256";

/// The permits of a key are counted in each statement. A pass of admission counts more of them once for many finishes.
const MOST_PERMITS: &str = "500";

/// Which jobs the worker claims if they get a permit.
pub(super) struct ClaimNext<'a> {
    worker: WorkerId,
    /// The queues that want as many jobs as may get a permit.
    queues: Vec<&'a str>,
    /// Those of them that have as many free slots. Only these take a job at risk.
    free: Vec<&'a str>,
    kinds: &'a [String],
    quarantined_at: i32,
}

impl<'a> ClaimNext<'a> {
    /// `worker` is the one whose jobs have ended, and `most` is their number. Without `next` it claims nothing.
    pub(super) fn new(worker: WorkerId, most: usize, next: Option<&'a Claim>) -> Self {
        let Some(claim) = next.filter(|claim| claim.worker == worker) else {
            return Self { worker, queues: Vec::new(), free: Vec::new(), kinds: &[], quarantined_at: 0 };
        };
        let those = |fits: fn(&Wanted) -> usize| {
            claim.wanted.iter().filter(|wanted| fits(wanted) >= most).map(|wanted| &*wanted.queue).collect()
        };
        let (queues, free) = (those(Wanted::total), those(|wanted| wanted.slots));
        Self { worker, queues, free, kinds: &claim.kinds, quarantined_at: claim.quarantined_at.into() }
    }
}

/// The common table expressions from `freed` to `woken`. They read the completed jobs from `moved`. `admitted` has a
/// row for each job that got a permit. Such a job is either in `claimed` or in `made`. `nudged` has a row for each key
/// that may have a free permit.
///
/// The name and the key come from the permit: reading them from the JSON of each job would take longer than the delete.
/// A job without a permit gives nothing back, and the statement that deleted its permit has nudged the key.
///
/// `next` begins to read at the floors of admission, if a key of the batch may be one with many jobs. `places` are in
/// the order of admission, and the first job says how many may run, as in a pass. A floor may be too high for a moment,
/// until a pass has read the nudge of an enqueue. Then a job with a higher priority waits for the next permit.
///
/// A job that another session has locked or changed since the snapshot gets no permit. Then all keys of the batch are
/// nudged.
///
/// `is_claimed` follows the rules of a claim: no more jobs than a queue wants, and a job at risk only for a free slot.
/// The first start of a job that may expire has a deadline, which only a claim reads.
pub(super) struct PassOn<'a>(pub(super) ClaimNext<'a>);

impl QueryFragment<Pg> for PassOn<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let (next, expires) = (&self.0, EXPIRES.to_string());
        sql!(
            out,
            "freed as (
    delete from jobs.permit where job_id = any(array(select id from moved)) returning limit_name, limit_key, number
), key as materialized (
    select limit_name, limit_key, count(*) as permits, max(number) as number from freed group by limit_name, limit_key
), floor as materialized (
    select number, floors from jobs.admission_floor order by number desc limit 1
), next as materialized (
    select key.*, coalesce(f.first_permit, 0) as first_permit, pick.places,
           coalesce(((select json_object_agg(s.name, s.most) from jobs.limit_setting s) ->> key.limit_name)::integer, pick.most) as most
    from key left join lateral json_to_recordset(case when key.permits > 1 or (select count(*) from key) <= 20 then (select floors from floor) end)
            as f (name text, key text, place smallint, run_at timestamptz, id bigint, first_permit bigint)
        on f.name = key.limit_name and f.key = key.limit_key
    cross join lateral (
        select array_agg(h.place) filter (where h.may_start) as places, (array_agg(h.most))[1] as most from (
            select h.ctid as place, h.most, bool_and(h.flags & ~" SIMPLE " = 0 and h.id % " LEFT_TO_ADMISSION " <> 0
                    and h.queue not in (select name from jobs.queue where paused) and h.kind not in (select name from jobs.kind where paused))
                over (order by ~h.priority, h.run_at, h.id) as may_start
            from (
                select h.ctid, h.* from jobs.held h
                where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = key.limit_name and h.limit_key = key.limit_key
                  and (~h.priority, h.run_at, h.id) >= (coalesce(f.place, (-32768)::smallint), coalesce(f.run_at, '-infinity'), coalesce(f.id, 0))
                order by ~h.priority, h.run_at, h.id limit key.permits
            ) h
        ) h
    ) pick
), chosen as materialized (
    select limit_name, limit_key, permits, number, case when places is not null and most <= " MOST_PERMITS "
            and not exists (select from jobs.installation where frozen_at is not null)
            and not ((select exists (select from jobs.held where not later and not paused and flags & 256 <> 0)) and exists (
                select from jobs.held h
                where not h.later and not h.paused and h.flags & 256 <> 0 and h.limit_name = next.limit_name and h.limit_key = next.limit_key
            ))
        then places[1:least(permits, permits + most - (select count(*) from (
                select from jobs.permit s where s.limit_name = next.limit_name and s.limit_key = next.limit_key and s.number >= next.first_permit
                limit next.most + next.permits
            ) taken))::integer]
        else '{}' end as places
    from next
), admitted as (
    delete from jobs.held where ctid = any(array(
        select h.ctid from jobs.held h where h.ctid = any(array(select unnest(places) from chosen)) for update skip locked
    ))
    returning *, queue = any(" [next.queues => Array<Text>] ") and kind = any(" [next.kinds => Array<Text>] ") and crashes < " [next.quarantined_at => Integer] "
        and (crashes = 0 and attempt < max_attempts - 1 or queue = any(" [next.free => Array<Text>] ")) and flags & " (&expires) " = 0
        and exists (select from jobs.worker w where w.id = " [next.worker.0 => SqlUuid] ") as is_claimed
), taken as (
    -- The number is never below that of the permits that it replaces, even if somebody has emptied jobs.admission_floor.
    insert into jobs.permit (job_id, limit_name, limit_key, number)
    select id, limit_name, limit_key, greatest((select number from floor), (select max(number) from key)) from admitted
), claimed as (
    insert into jobs.running (" RUNNING ", " CARRIED ")
    select id, clock_timestamp(), lease + 1, attempt + 1, max_attempts, crashes, " [next.worker.0 => SqlUuid] ", " CARRIED "
    from admitted where is_claimed order by priority desc, run_at, id
    returning " CLAIMED "
), made as (
    -- A claim would find an earlier time than now only after a rescan.
    insert into jobs.ready (" READY ", " CARRIED ")
    select id, clock_timestamp(), lease, attempt, max_attempts, crashes, " CARRIED " from admitted
    where not is_claimed order by priority desc, run_at, id
    returning queue
), nudged as (
    insert into jobs.nudge (limit_name, limit_key, run_at) select limit_name, limit_key, null::timestamptz from chosen
    where cardinality(places) < permits or (select count(*) from admitted) < (select sum(cardinality(places)) from chosen)
    returning 1
), woken as (
    select jobs.notify_workers(q.queue) from (select distinct queue from made) as q
    where current_setting('jobs.notify', true) is distinct from 'off'
      and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(q.queue) & 1023) = 1)
)"
        )
    }
}
