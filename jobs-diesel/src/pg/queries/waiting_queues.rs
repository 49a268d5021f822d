//! `waiting_queues`: the queues in which any job waits. It reads one index entry per queue, and locks no rows.
//!
//! A worker that serves patterns of queues runs it about once a second. A worker that serves a hundred queues runs it
//! before each claim: each queue in a claim costs some microseconds, and most of these queues are empty.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::Text;

use crate::pg::native::{native_query, sql};

pub(crate) struct WaitingQueuesQuery;

impl QueryFragment<Pg> for WaitingQueuesQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive live (queue) as (
    (select r.queue from jobs.ready r order by r.queue limit 1)
    union all
    select (select r.queue from jobs.ready r where r.queue > live.queue order by r.queue limit 1) from live where live.queue is not null
)
select queue from live where queue is not null"
        )
    }
}

native_query!(WaitingQueuesQuery -> Text);
