//! The statement of a claim: leases the first due jobs of one level.
//!
//! It is native SQL, so that it is prepared once. SQLite compiles an `update` together with all triggers of the table,
//! which takes longer than the rest of a claim.

use diesel::QueryResult;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Integer, Nullable, SmallInt, Text};
use diesel::sqlite::Sqlite;

use crate::flags::FlagsKnown;
use crate::native::{native_query, sql};
use crate::sqlite::time::NOW;
use crate::sqlite::types::Worker;

pub(super) struct ClaimLevelQuery<'a> {
    pub(super) worker: Worker,
    pub(super) queue: &'a str,
    pub(super) priority: i16,
    /// The kinds as a JSON array: the text of the statement does not depend on how many there are.
    pub(super) kinds: &'a str,
    pub(super) quarantined_at: i32,
    pub(super) limit: i64,
}

impl QueryFragment<Sqlite> for ClaimLevelQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        sql!(
            out,
            "update jobs_job set state = 'running', attempt = attempt + 1, lease = lease + 1, worker = " [self.worker => Text] ", claimed_at = " NOW "
where id in (
    select ready.id from jobs_job ready
    where ready.state = 'available' and ready.queue = " [self.queue => Text] " and ready.priority = " [self.priority => SmallInt] "
      and ready.run_at <= " NOW " and ready.kind in (select value from json_each(" [self.kinds => Text] "))
      and ready.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("ready")} "
    order by ready.run_at, ready.id limit " [self.limit => BigInt] "
)
returning id, lease, kind, queue, priority, args, attempt, max_attempts, crashes, flags, run_at, enqueued_at, claimed_at, traceparent, start_by"
        )
    }
}

type Row = (
    BigInt,
    Integer,
    Text,
    Text,
    SmallInt,
    Text,
    Integer,
    Integer,
    Integer,
    Integer,
    BigInt,
    BigInt,
    Nullable<BigInt>,
    Nullable<Text>,
    Nullable<BigInt>,
);

native_query!(ClaimLevelQuery<'a> -> Row);
