//! The part of the statements that end jobs which releases their unique keys. A row that an enqueue has locked is
//! passed over. That enqueue gives the key to its own job. If it is rolled back, the row has no effect, because its job
//! has ended.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};

/// The common table expression `released`. It reads the jobs that end from another one, which has the columns `id` and
/// `flags`.
pub(super) struct FreeKeys {
    /// The name of that common table expression.
    pub(super) from: &'static str,
    /// The condition for the rows that end.
    pub(super) when: &'static str,
}

impl QueryFragment<Pg> for FreeKeys {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Self { from, when } = self;
        out.push_sql(&format!(
            "released as (
    delete from jobs.unique_key where ctid = any(array(
        select k.ctid from jobs.unique_key k
        where k.job_id = any(array(select id from {from} where flags & 16 <> 0 and {when}))
        for update skip locked
    ))
)"
        ));
        Ok(())
    }
}
