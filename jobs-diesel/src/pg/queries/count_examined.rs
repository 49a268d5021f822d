//! `count_examined`: how many jobs there are in a range of ids that a step of an operation has examined.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::BigInt;
use diesel_jobs_core::storage::EXAMINED_PER_STEP;

use crate::pg::native::{native_query, sql};

pub(crate) struct CountExaminedQuery {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

impl QueryFragment<Pg> for CountExaminedQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let most = EXAMINED_PER_STEP.to_string();
        for (number, table) in ["jobs.ready", "jobs.held", "jobs.running", "jobs.finished"].into_iter().enumerate() {
            out.push_sql(if number == 0 { "" } else { " union all " });
            sql!(
                out,
                "select count(*) from (select from " (table) " where id >= " [self.lowest => BigInt] " and id <= " [self.highest => BigInt]
                " order by id limit " (&most) ") examined"
            )?;
        }
        Ok(())
    }
}

native_query!(CountExaminedQuery -> BigInt);
