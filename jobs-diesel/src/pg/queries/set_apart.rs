//! `set_apart`: takes rows out of the way that the database refuses to move on, with the reason. Asked for only after a refusal:
//! it reads all of `jobs.ready`, which has no index on `id`.
//!
//! A row comes to this when its id was given twice (a sequence that was set back, after a logical failover or a restore), or
//! when somebody wrote numbers that cannot be counted up. The second of two rows goes, so that neither the lease nor the history
//! of the first is lost.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Text};

use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// Waiting rows that no claim can move to `jobs.running`.
pub(crate) struct SetWaitingApart;

impl QueryFragment<Pg> for SetWaitingApart {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with culprit as (
    select ready.ctid, case
        when ready.attempt = 32767 or ready.lease = 2147483647 then 'its attempts or leases cannot be counted up any more'
        when exists (select from jobs.running where running.id = ready.id) then 'its id is that of a running job'
        when row_number() over (partition by ready.id order by ready.enqueued_at) > 1 then 'its id is that of another waiting job'
        end as reason
    from jobs.ready where " {FlagsKnown("ready")} "
), gone as (
    delete from jobs.ready using culprit
    where ready.ctid = culprit.ctid and culprit.reason is not null
    returning ready.id, ready.kind, ready.queue, culprit.reason, row_to_json(ready) as job
), kept as (
    insert into jobs.dead_letter (id, kind, queue, reason, job) select id, kind, queue, reason, job from gone
)
select id, kind, reason from gone"
        )
    }
}

native_query!(SetWaitingApart -> (BigInt, Text, Text));

/// History that has the id of a running job, which could not end: the older of the two goes.
pub(crate) struct SetFinishedApart;

impl QueryFragment<Pg> for SetFinishedApart {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with gone as (
    delete from jobs.finished
    where id = any(array(select id from jobs.running)) and " {FlagsKnown("finished")} "
    returning id, kind, queue, 'a later job has the same id'::text as reason, row_to_json(finished) as job
), kept as (
    insert into jobs.dead_letter (id, kind, queue, reason, job) select id, kind, queue, reason, job from gone
)
select id, kind, reason from gone"
        )
    }
}

native_query!(SetFinishedApart -> (BigInt, Text, Text));
