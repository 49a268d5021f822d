//! `prune`: deletes finished jobs whose retention is over, with their failures, payloads and outputs, at most
//! `limit`. While the
//! database is frozen it deletes none, because operators may want to see them.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::BigInt;

use super::scan::NOT_FROZEN;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct PruneQuery {
    pub(crate) limit: i64,
}

impl QueryFragment<Pg> for PruneQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with expired as (
    delete from jobs.finished where ctid = any(array(
        select ctid from jobs.finished where expires_at <= now() and " {FlagsKnown("finished")} "
          and " NOT_FROZEN " order by expires_at limit " [self.limit => BigInt] "
        for update skip locked
    ))
    returning id, args
), errors as (
    delete from jobs.job_error where job_id in (select id from expired)
), payloads as (
    delete from jobs.payload where job_id = any(array(select id from expired where args is null))
), outputs as (
    delete from jobs.output where job_id = any(array(select id from expired))
)
select count(*) from expired"
        )
    }
}

native_query!(PruneQuery -> BigInt);
