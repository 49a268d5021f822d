//! `delete` of an operator: deletes jobs that wait or have ended, with their failures, large arguments and outputs. It
//! waits for ended jobs that are locked, in the order of the ids, before it locks a waiting one: what reads its parts
//! first reads all of `gone`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt};
use diesel_jobs_core::storage::Action;

use super::audited::{Actor, Audited};
use super::delete_held::{FROM_HELD, KNOWN, UNLOCKED};
use super::free_keys::FreeKeys;
use super::free_permits::FreePermits;
use super::wake::ADMISSION_WOKEN;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

const LEAVES: FreePermits = FreePermits::ended("left_behind");

pub(crate) struct DeleteJobsQuery {
    ids: Vec<i64>,
    audited: Audited,
}

impl DeleteJobsQuery {
    pub(crate) fn new(ids: Vec<i64>, actor: Actor<'_>) -> Self {
        Self { ids, audited: Audited::new("gone", &Action::Delete, actor) }
    }
}

impl QueryFragment<Pg> for DeleteJobsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with ended as (
    delete from jobs.finished where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.finished where id = wanted.id and " {FlagsKnown("finished")} " for update
        ) found
    ))
    returning id
), waiting as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.ready where id = wanted.id and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning id, flags, rules
), held as (
    " FROM_HELD [self.ids => Array<BigInt>] KNOWN {FlagsKnown("held")} UNLOCKED "
    returning id, flags, rules
), gone as (
    select id, null::json as rules from ended union all select id, rules from waiting union all select id, rules from held
), left_behind as (
    select id, flags, rules from waiting union all select id, flags, rules from held
), " {LEAVES} ", " {FreeKeys { from: "left_behind", when: "true" }} ", errors as (
    delete from jobs.job_error where job_id = any(array(select id from gone))
), payloads as (
    delete from jobs.payload where job_id = any(array(select id from gone))
), outputs as (
    delete from jobs.output where job_id = any(array(select id from gone))
)" {self.audited} ", woken as (
    select " ADMISSION_WOKEN " from gone having bool_or(rules is not null)
)
select id from gone where (select count(*) from woken) >= 0"
        )
    }
}

native_query!(DeleteJobsQuery -> BigInt);
