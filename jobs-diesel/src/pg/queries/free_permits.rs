//! The parts of the statements that move jobs with a limit away from `jobs.ready` and `jobs.running`. They delete the
//! permits of the jobs and nudge their keys, in the same statement. They nudge even if no permit was found, and even if
//! no job is held. A job may become held at the same time, in a transaction that this snapshot does not see.
//!
//! - A job of a sequence keeps its permit while it waits for its next attempt, and when it is discarded and halts its
//!   sequence.
//! - A job with a rate has no permit, and its end frees no token. Its key is nudged only if the job waits for another
//!   attempt.
//! - For a job with several rules, all keys are nudged. Only its sequence keeps its permit. While it is held, its flags
//!   4 and 8 say where it waits, so what it has is read from its rules.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};

use super::columns::PLACE;

/// The common table expressions `freed`, `halted` and `nudged`. It reads the jobs that leave from another one, which
/// has the columns `id`, `flags` and `rules`.
pub(super) struct FreePermits {
    /// The name of that common table expression.
    pub(super) from: &'static str,
    /// The condition for the rows that leave.
    pub(super) when: &'static str,
    /// The condition for those of them that wait again: a sequence waits with them.
    pub(super) wait_again: &'static str,
    /// The condition for those of them that are discarded: a sequence may halt.
    pub(super) discarded: &'static str,
}

impl FreePermits {
    /// Jobs that end, and are not discarded.
    pub(super) const fn ended(from: &'static str) -> Self {
        Self { from, when: "true", wait_again: "false", discarded: "false" }
    }
}

impl QueryFragment<Pg> for FreePermits {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self { from, when, wait_again, discarded } = self;
        let ends = format!(
            "case when {wait_again} then rules #> '{{0,rule,sequence}}' is null
            when {discarded} then coalesce(rules #>> '{{0,rule,sequence,on_discard}}', '') <> 'halt' else true end"
        );
        out.push_sql(&format!(
            "freed as (
    delete from jobs.permit where job_id = any(array(
        select id from {from} where rules is not null and {when}
          and {ends}
    ))
), freed_beside_turn as (
    delete from jobs.permit where ctid = any(array(
        select permit.ctid from (
            select id, rules from {from} where flags & 128 <> 0 and {when} and not {ends}
        ) job cross join lateral jobs.beside_sequence(job.rules) r cross join lateral (
            select s.ctid from jobs.permit s where s.job_id = job.id and s.limit_name = r ->> 'name' offset 0
        ) permit
    ))
), halted as (
    update jobs.permit set halted_at = clock_timestamp()
    where job_id = any(array(select id from {from} where rules is not null and {when} and {discarded} and rules #>> '{{0,rule,sequence,on_discard}}' = 'halt'))
      and not exists (select from {from} job where job.id = permit.job_id and job.flags & 128 <> 0 and job.rules #>> '{{0,name}}' <> permit.limit_name)
), nudged as (
    insert into jobs.nudge (limit_name, limit_key, run_at)
    select distinct place.limit_name, place.limit_key, case when {wait_again} then '-infinity'::timestamptz end from {from} {PLACE}
    where rules is not null and {when} and (flags & 136 <> 8 or {wait_again})
), nudged_several as (
    insert into jobs.nudge (limit_name, limit_key)
    select distinct key.name, key.value from (
        select rules from {from} where flags & 128 <> 0 and {when}
    ) job cross join lateral (
        select r ->> 'name', r ->> 'key' from jobs.beside_sequence(job.rules) r where r #> '{{rule,rate}}' is null
        union all select '', jobs.lane(job.rules) where job.rules #> '{{0,rule,sequence}}' is not null
    ) key (name, value)
)"
        ));
        Ok(())
    }
}
