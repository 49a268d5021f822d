//! `wake`: tells sleeping workers that their queues have work. Silent while none sleeps: NOTIFY takes a lock that all
//! committing transactions of the server share.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Text};

use crate::pg::native::{native_query, sql};

/// The channel.
pub(crate) const CHANNEL: &str = "jobs";

/// Whether anybody would hear it. Reads the few rows of `jobs.worker` once per statement.
pub(crate) const SOMEBODY_SLEEPS: &str = "exists (select from jobs.worker where idle)";

pub(crate) struct WakeQuery<'a> {
    pub(crate) queues: Vec<&'a str>,
}

impl QueryFragment<Pg> for WakeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select count(pg_notify('jobs', queue)) from unnest(" [self.queues => Array<Text>] ") as woken (queue) where " SOMEBODY_SLEEPS
        )
    }
}

native_query!(WakeQuery<'a> -> BigInt);
