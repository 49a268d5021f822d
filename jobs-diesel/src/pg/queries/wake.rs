//! `wake`: tells sleeping workers that their queues have work. Silent while none of a queue's sleeps: NOTIFY takes a lock that all
//! committing transactions of the server share.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Text};

use crate::pg::native::{native_query, sql};

/// The channel.
pub(crate) const CHANNEL: &str = "jobs";

/// Whether anybody would hear it who serves `queue`, and may: a transaction that notified cannot be prepared for a two-phase
/// commit, so whoever prepares one sets `jobs.notify` to `off`. Reads the few rows of `jobs.worker`.
pub(crate) const SOMEBODY_SLEEPS: &str = "current_setting('jobs.notify', true) is distinct from 'off' \
    and exists (select from jobs.worker where idle and get_bit(queue_filter, hashtext(queue) & 1023) = 1)";

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
