//! `held_by_queue`: how many jobs of each queue wait for their limits, or will do so later. It reads a bounded number
//! of rows through `held_id`, and locks none. If there are more, the numbers of the last count of all jobs are shown.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::{COUNTED_DEPTH, HeldCounts};

use crate::pg::native::{native_query, sql};

/// One row more than is counted, which shows that there are more.
const READ: i64 = COUNTED_DEPTH + 1;

pub(crate) struct HeldByQueueQuery;

/// The queue, how many jobs are due, and how many are due later.
pub(crate) type HeldByQueueRow = (String, i64, i64);

/// Reads the rows.
pub(crate) fn read(queues: Vec<HeldByQueueRow>) -> HeldCounts {
    let is_whole = queues.iter().map(|(_, due, later)| due + later).sum::<i64>() < READ;
    HeldCounts { queues, is_whole }
}

impl QueryFragment<Pg> for HeldByQueueQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with part as materialized (
    select queue, run_at <= now() as due from jobs.held order by id limit " [READ => BigInt] "
)
select queue, count(*) filter (where due), count(*) filter (where not due) from part group by queue"
        )
    }
}

native_query!(HeldByQueueQuery -> (Text, BigInt, BigInt));
