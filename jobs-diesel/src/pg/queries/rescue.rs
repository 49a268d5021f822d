//! `rescue`: frees the jobs of workers whose lease ran out, with one statement.
//!
//! It deletes the worker's row and its running rows together. So a worker that resumes later is not registered any
//! more, and its leases are refused.
//!
//! The jobs of a worker that was draining are released: see
//! [`RescuePolicy::decide`](diesel_jobs_core::storage::RescuePolicy::decide). The row of such a worker stays until all
//! its jobs are free, because it alone says that the worker was draining. Each such release adds a row with the kind
//! `killed` to `jobs.job_error`, and only a rescue counts these rows. So no row of a job needs a counter.
//!
//! The statement can also free running rows whose worker has no row at all: see
//! [`RescuePolicy::orphans`](diesel_jobs_core::storage::RescuePolicy::orphans).
//!
//! If the database refuses to move a job, the rescue leaves it out, see [`rescue`](crate::pg::rescue). Its worker's row
//! stays, too, so that a later rescue finds both. `had_others` says to that rescue whether the worker had other jobs.
//!
//! Rows that another session has locked are passed over. The result contains whether there are such rows, and the next
//! rescue searches for them.
//!
//! A worker's row may look too old although the worker is alive. Either the database's clock has jumped, or the
//! database was suspended while heartbeats waited for it. Then the rescuer's own row looks as old, or it has changed
//! since the statement was sent, or is older than its own lease. In these cases no worker is declared dead.
//!
//! If a worker had several jobs, it is unknown which of them caused the crash. So a job is discarded for its crashes
//! only if it was the only job of its worker.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_jobs_core::storage::{
    CRASH_FINGERPRINT, CRASHED_TOO_OFTEN, KILLED_FINGERPRINT, KILLED_TOO_OFTEN, MOST_ENDED, MOST_KILLS,
    NO_ATTEMPT_LEFT, RUNS_ALONE, RescuePolicy, WAS_KILLED,
};
use uuid::Uuid;

use super::columns::{CARRIED, ERROR, FINISHED, READY};
use super::expiry::{BEGIN, END, OR_ELSE, SetByOperators};
use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::on_discarded::FOLLOWED;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, seconds, sql};

pub(crate) struct RescueQuery<'a> {
    pub(crate) max_crashes: i32,
    pub(crate) quarantined_at: i32,
    pub(crate) keep_seconds: f64,
    /// Whether to free running jobs whose worker has no row. If `false`, the running jobs are read only if a worker is
    /// dead.
    pub(crate) orphans: bool,
    /// The worker that rescues.
    pub(crate) worker: Option<Uuid>,
    /// The time of its newest heartbeat.
    pub(crate) beat: Option<DateTime<Utc>>,
    /// The greatest age that this heartbeat can have, in seconds.
    pub(crate) age: f64,
    /// Only these jobs are rescued. The rows of workers that have others stay.
    pub(crate) only: Option<&'a [i64]>,
}

impl<'a> RescueQuery<'a> {
    pub(crate) fn new(policy: RescuePolicy, only: Option<&'a [i64]>) -> Self {
        Self {
            max_crashes: policy.max_crashes.into(),
            quarantined_at: policy.quarantined_at().into(),
            keep_seconds: seconds(policy.retention.discarded),
            orphans: policy.orphans,
            worker: policy.rescuer.map(|rescuer| rescuer.worker.0),
            beat: policy.rescuer.map(|rescuer| rescuer.beat),
            age: policy.rescuer.map_or(0.0, |rescuer| seconds(rescuer.age)),
            only,
        }
    }
}

/// The condition for jobs that the database has refused to move and that are not tried again yet, as
/// [`end_waiting`](super::end_waiting) has it for waiting jobs. There are few of them, so they are read once: if they
/// were looked up for each job, a server would expect so much work that it compiles the statement, which takes seconds.
const IS_NOT_LEFT_OUT: &str = "r.id <> all(array(
            select f.job_id from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.next_at > statement_timestamp()
        ))";

/// The condition for running jobs whose worker is dead or has no row. An opening parenthesis and `orphans` precede it.
const WITHOUT_WORKER: &str = " or exists (select from dead))
          and (r.worker = any(array(select id from dead)) or r.worker <> all(array(select id from jobs.worker)))";

/// [`MOST_KILLS`] as the statement needs it.
const KILLS: i64 = MOST_KILLS as i64;

/// A discarded job gives its permit back. A rescued one keeps it, because it is available again.
const LEAVES: FreePermits =
    FreePermits { from: "decided", when: "discard_reason is not null", wait_again: "false", discarded: "true" };

/// A rescued job keeps its unique key.
const RELEASED: FreeKeys = FreeKeys { from: "decided", when: "discard_reason is not null" };

impl QueryFragment<Pg> for RescueQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with own as (
    select heartbeat_at = rescuer.beat as is_known, heartbeat_at >= greatest(rescuer.beat, now() - lease, now() - make_interval(secs => " [self.age => Double] ")) as is_young
    from jobs.worker, (select " [self.worker => Nullable<SqlUuid>] " as id, " [self.beat => Nullable<Timestamptz>] " as beat) rescuer
    where worker.id = rescuer.id
), dead as (
    select id, host, pid, heartbeat_at, draining_at, had_others from jobs.worker
    where (" [self.worker => Nullable<SqlUuid>] " is null or exists (select from own where is_known and is_young))
      and heartbeat_at < now() - lease for update skip locked
), lost as (
    delete from jobs.running where id = any(array(
        select r.id from jobs.running r
        where (" [self.orphans => Bool] WITHOUT_WORKER "
          and " {FlagsKnown("r")} " and (" [self.only => Nullable<Array<BigInt>>] " is null or r.id = any(" [self.only => Nullable<Array<BigInt>>] "))
          and " IS_NOT_LEFT_OUT "
        for update skip locked
    ))
    returning *
), buried as (
    delete from jobs.worker where id = any(array(
        select id from dead where not exists (
            select from jobs.running r where r.worker = dead.id and " {FlagsKnown("r")} " and r.id not in (select id from lost)
              and not (dead.draining_at is null and " [self.only => Nullable<Array<BigInt>>] " is null and " IS_NOT_LEFT_OUT ")
        )
    ))
    returning id
), kept as (
    update jobs.worker set had_others = true
    where id = any(array(select worker from lost)) and id <> all(array(select id from buried))
), forgotten as (
    delete from jobs.admission_failure where ctid = any(array(
        select f.ctid from jobs.admission_failure f
        where f.limit_name = '' and f.limit_key = '' and f.job_id = any(array(select id from lost)) for update skip locked
    ))
), counted as (
    select lost.*, crashed, drained, killed,
           case when killed then null
                when not with_others and crashed >= " [self.max_crashes => Integer] " then '" CRASHED_TOO_OFTEN "'
                when attempt >= max_attempts then '" NO_ATTEMPT_LEFT "' end as discard_reason
    from lost
    join (
        select worker, worker = any(array(select id from dead where had_others)) or count(*) > 1 as with_others
        from jobs.running where worker = any(array(select worker from lost)) group by worker
    ) of_worker using (worker)
    cross join lateral (
        select exists (select from dead where dead.id = lost.worker and draining_at is not null) as drained
    ) worker_of_job
    cross join lateral (
        select drained and (select count(*) from jobs.job_error e where e.job_id = lost.id and e.kind = 'killed') < " [KILLS => BigInt] " as killed
    ) kills
    cross join lateral (
        select case when killed then crashes
                    when with_others then greatest(crashes, least(crashes + 1, " [self.quarantined_at => Integer] ")) else least(crashes + 1, 32767) end as crashed
    ) count
), decided as (
    select j.*, case when killed then 'killed' else 'crash' end as failure_kind,
           'worker ' || j.worker || coalesce(' (process ' || d.pid || ' on ' || d.host || ', last heartbeat ' || to_char(d.heartbeat_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SSZ') || ')', '')
               || case when killed then '" WAS_KILLED "' else ' died with the job' || case when drained then '" KILLED_TOO_OFTEN "' else '' end || coalesce('; discarded: ' || j.discard_reason, case when j.crashed >= " [self.quarantined_at => Integer] " then '" RUNS_ALONE "' else '' end) end as message
    from counted j left join dead d on d.id = j.worker
), returned as (
    insert into jobs.ready (" READY ", " CARRIED ")
    select id, run_at, lease, case when killed then greatest(attempt - 1, 0) else attempt end, max_attempts, crashed, " CARRIED "
    from decided where discard_reason is null
), discarded as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, claimed_at, " BEGIN {SetByOperators("3", "decided")} OR_ELSE [self.keep_seconds => Double] END ", lease, 3, attempt, max_attempts, crashed, worker, " CARRIED "
    from decided where discard_reason is not null
), recorded as (
    insert into jobs.job_error (" ERROR ")
    select id, attempt, claimed_at, worker, failure_kind, message,
           case when killed then " [KILLED_FINGERPRINT => BigInt] " else " [CRASH_FINGERPRINT => BigInt] " end
    from decided
), gone as (
    select * from decided where discard_reason is not null
), " FOLLOWED ", " {LEAVES} ", " {RELEASED} ", woken as (
    select jobs.notify_workers(queue) from decided where discard_reason is null group by queue
)
select j.id, j.queue, j.kind, j.killed, j.discard_reason is not null, (select count(*) from woken) + (select count(*) from followed),
       exists (select from decided where discard_reason is null and crashed >= " [self.quarantined_at => Integer] ")
       or exists (select from jobs.ready waiting where waiting.crashes > 0 and waiting.crashes >= " [self.quarantined_at => Integer] "
                  and waiting.run_at <= now() and " {FlagsKnown("waiting")} "),
       (select count(*) from jobs.running r
        where (" [self.orphans => Bool] WITHOUT_WORKER " and " {FlagsKnown("r")} " and " IS_NOT_LEFT_OUT ") > (select count(*) from lost),
       " [self.worker => Nullable<SqlUuid>] " is not null and not exists (select from own where is_young),
       exists (select from own where is_young and not is_known)
from (select) once left join decided j on true"
        )
    }
}

native_query!(RescueQuery<'a> -> (Nullable<BigInt>, Nullable<Text>, Nullable<Text>, Nullable<Bool>, Nullable<Bool>, BigInt, Bool, Bool, Bool, Bool));

/// The jobs of dead workers, and those whose worker has no row, to find the ones that make a rescue fail.
pub(crate) struct LostQuery {
    limit: i64,
}

impl LostQuery {
    pub(crate) fn new() -> Self {
        Self { limit: i64::try_from(MOST_ENDED).unwrap_or(i64::MAX) }
    }
}

impl QueryFragment<Pg> for LostQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select r.id from jobs.running r
    where not exists (select from jobs.worker where worker.id = r.worker and worker.heartbeat_at >= now() - worker.lease offset 0)
      and " {FlagsKnown("r")} " and " IS_NOT_LEFT_OUT "
    order by r.id limit " [self.limit => BigInt]
        )
    }
}

native_query!(LostQuery -> BigInt);
