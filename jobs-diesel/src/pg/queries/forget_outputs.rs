//! `forget_outputs`: deletes outputs whose job no longer exists. `prune` deletes outputs together with their jobs. But
//! there are jobs that end in other ways after an attempt has stored an output: an older program prunes them, or the row is
//! set apart, or a person deletes it.
//!
//! It looks at the next outputs in the order of their ids, so that its cost does not depend on how many there are. An output
//! whose job waits is deleted, too, because it never counts again.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Nullable};

use super::scan::NOT_FROZEN;
use crate::pg::native::{native_query, sql};

/// Returns the last id that it has looked at. Null: there was none after `after`.
pub(crate) struct ForgetOutputsQuery {
    pub(crate) after: i64,
    pub(crate) limit: i64,
}

impl QueryFragment<Pg> for ForgetOutputsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with seen as (
    select job_id from jobs.output where job_id > " [self.after => BigInt] " and " NOT_FROZEN " order by job_id limit " [self.limit => BigInt] "
), forgotten as (
    delete from jobs.output where job_id = any(array(
        select job_id from seen
        where not exists (select from jobs.finished where id = job_id) and not exists (select from jobs.running where id = job_id)
    ))
)
select max(job_id) from seen"
        )
    }
}

native_query!(ForgetOutputsQuery -> Nullable<BigInt>);
