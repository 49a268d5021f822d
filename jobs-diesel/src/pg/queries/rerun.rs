//! `rerun`: enqueues ended jobs again. The new jobs have new ids, all attempts, no trace context of the old ones, and
//! do not expire. The ended jobs are only read.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt};
use diesel_jobs_core::storage::Action;

use super::audited::{Actor, Audited};
use super::columns::{HELD, HELD_VALUES, PLACE};
use super::wake::{A_WORKER_IS_IDLE, ADMISSION_WOKEN};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// Returns the old and the new id of each job.
pub(crate) struct RerunQuery {
    ids: Vec<i64>,
    audited: Audited,
}

impl RerunQuery {
    pub(crate) fn new(ids: Vec<i64>, actor: Actor<'_>) -> Self {
        Self { ids, audited: Audited::new("ended", &Action::Rerun, actor) }
    }
}

impl QueryFragment<Pg> for RerunQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // The order of the rows gives the new jobs the order of the old ones.
        sql!(
            out,
            "with ended as materialized (
    select nextval('jobs.job_id') as new_id, job.* from (
        select id, flags & ~32 as flags, priority, max_attempts, kind, queue, tags, rules,
               coalesce(args, (select payload.args from jobs.payload where payload.job_id = finished.id), 'null') as args
        from jobs.finished where id = any(" [self.ids => Array<BigInt>] ") and " {FlagsKnown("finished")} " order by id
    ) job
), returned as (
    insert into jobs.ready (id, flags, priority, max_attempts, kind, queue, tags, args)
    select new_id, flags, priority, max_attempts, kind, queue, tags, args from ended where rules is null
    returning queue
), held as (
    insert into jobs.held (id, flags, priority, max_attempts, kind, queue, tags, args, rules, " HELD ")
    select new_id, flags, priority, max_attempts, kind, queue, tags, args, rules, false, " HELD_VALUES " from ended " PLACE " where rules is not null
    returning limit_name, limit_key
), nudged as (
    insert into jobs.nudge (limit_name, limit_key) select distinct limit_name, limit_key from held
), woken as (
    select jobs.notify_workers(queue) from (select distinct queue from returned) returned where " A_WORKER_IS_IDLE "
    union all select " ADMISSION_WOKEN " where exists (select from held)
)" {self.audited} "
select id, new_id from ended where (select count(*) from returned) + (select count(*) from woken) >= 0"
        )
    }
}

native_query!(RerunQuery -> (BigInt, BigInt));
