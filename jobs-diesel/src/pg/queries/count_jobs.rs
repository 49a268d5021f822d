//! `sample_jobs`: counts a part of a table, in the order of the ids. A part takes some ten milliseconds. A statement
//! that counts a whole table would keep its snapshot for seconds, and meanwhile no vacuum could remove dead rows of the
//! queue. The parts lock no rows. They use `finished_pkey` and `ready_id`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Double, Nullable, Text};

use crate::pg::native::{native_query, sql};

/// Rows per part.
pub(crate) const PART: i64 = 25_000;

/// Queue, kind and state. Then the number of jobs, the last id among them, and how long the oldest due one has waited.
pub(crate) type CountRow = (String, String, String, i64, i64, Option<f64>);

pub(crate) struct CountFinishedQuery {
    /// Only jobs with greater ids.
    pub(crate) after: i64,
}

pub(crate) struct CountReadyQuery {
    /// Only jobs with greater ids.
    pub(crate) after: i64,
}

pub(crate) struct CountHeldQuery {
    /// Only jobs with greater ids.
    pub(crate) after: i64,
}

impl QueryFragment<Pg> for CountFinishedQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with part as materialized (
    select id, queue, kind, state from jobs.finished where id > " [self.after => BigInt] " order by id limit " [PART => BigInt] "
)
select queue, kind, (array['completed', 'cancelled', 'discarded'])[state], count(*), max(id), null::float8
from part group by queue, kind, state"
        )
    }
}

impl QueryFragment<Pg> for CountReadyQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with part as materialized (
    select id, queue, kind, run_at, case when run_at <= now() then 'available' when attempt > 0 then 'retrying' else 'scheduled' end as state
    from jobs.ready where id > " [self.after => BigInt] " order by id limit " [PART => BigInt] "
)
select queue, kind, state, count(*), max(id), extract(epoch from now() - min(run_at) filter (where state = 'available'))::float8
from part group by queue, kind, state"
        )
    }
}

impl QueryFragment<Pg> for CountHeldQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with part as materialized (
    select id, queue, kind, case when run_at <= now() then 'held' when attempt > 0 then 'retrying' else 'scheduled' end as state
    from jobs.held where id > " [self.after => BigInt] " order by id limit " [PART => BigInt] "
)
select queue, kind, state, count(*), max(id), null::float8 from part group by queue, kind, state"
        )
    }
}

native_query!(CountHeldQuery -> (Text, Text, Text, BigInt, BigInt, Nullable<Double>));
native_query!(CountFinishedQuery -> (Text, Text, Text, BigInt, BigInt, Nullable<Double>));
native_query!(CountReadyQuery -> (Text, Text, Text, BigInt, BigInt, Nullable<Double>));
