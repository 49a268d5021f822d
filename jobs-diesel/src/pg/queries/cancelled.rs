//! `cancelled`: which of these jobs are cancelled, and by whom. It looks up each job by its key, and takes no lock.

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
            "select wanted.id, (select e.actor from jobs.job_error e where e.job_id = wanted.id and e.kind = 'cancelled' order by e.id desc limit 1)
from unnest(" [self.ids => Array<BigInt>] ") as wanted(id)
cross join lateral (select from jobs.finished where id = wanted.id and state = 2 offset 0) job"
        )
    }
}

native_query!(CancelledQuery -> (BigInt, Nullable<Text>));
