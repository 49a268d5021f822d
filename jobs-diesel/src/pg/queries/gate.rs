//! The gate: at most four workers look for jobs at the same moment. Claimers walk over one another's locked rows, which
//! costs all of them more than four at once can gain: with 64 processes this makes 1.7 times as many jobs per second.
//!
//! Nobody waits at the gate: whoever finds it full comes back later. A place is an advisory lock of the transaction, which
//! is one statement, so that it comes back with its connection, whatever becomes of the worker. Only one that is stopped
//! between two packets of a long answer keeps it; [`Claim::insist`] goes past the gate then.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::Bool;
#[cfg(doc)]
use jobs_core::storage::Claim;

use crate::pg::native::sql;

/// Whether this statement may look. Asked once, before anything is read.
pub(super) struct Gate {
    pub(super) insist: bool,
}

impl QueryFragment<Pg> for Gate {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // The first number is `jobs` in ASCII.
        sql!(
            out,
            "(" [self.insist => Bool] " or (select pg_try_advisory_xact_lock(1785684595, 1) or pg_try_advisory_xact_lock(1785684595, 2)
                or pg_try_advisory_xact_lock(1785684595, 3) or pg_try_advisory_xact_lock(1785684595, 4)))"
        )
    }
}
