//! `live_queues`: the queues that any job waits in, one index entry each. A worker that serves a thousand queues asks this first,
//! because each queue that a claim names costs it some microseconds, and mostly nothing waits there. It locks nothing.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::Text;

use crate::pg::native::{native_query, sql};

pub(crate) struct LiveQueuesQuery;

impl QueryFragment<Pg> for LiveQueuesQuery {
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

native_query!(LiveQueuesQuery -> Text);
