//! `cancelled`: which of these jobs are cancelled, and by whom. It looks up each job by its key, and takes no lock.
//!
//! A subquery for each job would be estimated so high without statistics that the server would compile it.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Nullable, Text};

use crate::pg::native::{native_query, sql};

pub(crate) struct CancelledQuery {
    pub(crate) ids: Vec<i64>,
}

impl QueryFragment<Pg> for CancelledQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with cancelled as materialized (
    select id from jobs.finished where id = any(" [self.ids => Array<BigInt>] ") and state = 2
)
select cancelled.id, newest.actor from cancelled left join (
    select distinct on (e.job_id) e.job_id, e.actor from jobs.job_error e
    where e.job_id = any(array(select id from cancelled)) and e.kind = 'cancelled' order by e.job_id, e.id desc
) newest on newest.job_id = cancelled.id"
        )
    }
}

native_query!(CancelledQuery -> (BigInt, Nullable<Text>));
