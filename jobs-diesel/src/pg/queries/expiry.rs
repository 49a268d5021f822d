//! The time until which an ended job is kept, if no worker decides it. It is the setting of operators for its kind,
//! else their setting for all kinds, else a given time. The SQL is [`BEGIN`], the subquery, [`OR_ELSE`], the seconds,
//! [`END`].

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};

use crate::pg::native::sql;

/// Comes before the subquery.
pub(super) const BEGIN: &str = "nullif(coalesce((";
/// Comes between the subquery and the seconds that hold if operators have set nothing.
pub(super) const OR_ELSE: &str = "), now() + make_interval(secs => ";
/// Comes after the seconds. Null means for ever.
pub(super) const END: &str = ")), 'infinity')";

/// The subquery. The fields are the number of the state in `jobs.finished`, and the name or the alias of the job's row.
pub(super) struct SetByOperators(pub(super) &'static str, pub(super) &'static str);

impl QueryFragment<Pg> for SetByOperators {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select case when r.keep is null then 'infinity' else now() + r.keep end from jobs.retention r where r.state = "
            (self.0) " and r.kind in (" (self.1) ".kind, '') order by r.kind desc limit 1"
        )
    }
}
