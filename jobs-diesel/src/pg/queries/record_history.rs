//! `record_history`: writes what a worker did within a minute, with one statement. It locks no rows.
//!
//! The minute is by the database's clock: the worker says how long ago it was. If the reply to the statement was lost,
//! the worker sends it again. Then it finds the rows of its batch and inserts nothing. For that it reads the rows of
//! four minutes through `history_at`.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Double, Json, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::native::{RawJson, native_query, sql};

pub(crate) struct RecordHistoryQuery {
    pub(crate) batch: Uuid,
    /// How long ago the middle of the minute was, in seconds.
    pub(crate) age: f64,
    /// The rows, as a JSON array of `HistoryRow`.
    pub(crate) rows: RawJson,
}

impl QueryFragment<Pg> for RecordHistoryQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with batch as (
    select " [self.batch => SqlUuid] " as id,
           date_bin('1 minute', now() - make_interval(secs => " [self.age => Double] "), timestamptz 'epoch') as at
)
insert into jobs.history (at, batch, queue, kind, completed, retried, discarded, cancelled, snoozed, waits, runs, wait_seconds, run_seconds)
select b.at, b.id, r.queue, r.kind, r.completed, r.retried, r.discarded, r.cancelled, r.snoozed, r.waits, r.runs, r.wait_seconds, r.run_seconds
from batch b, json_to_recordset(" [self.rows => Json] ") as r (queue text, kind text, completed bigint, retried bigint,
    discarded bigint, cancelled bigint, snoozed bigint, waits integer[], runs integer[], wait_seconds float8, run_seconds float8)
where not exists (
    select from jobs.history h
    where h.minutes = 1 and h.at between b.at - interval '2 minutes' and b.at + interval '1 minute' and h.batch = b.id
)"
        )
    }
}

native_query!(RecordHistoryQuery -> ());
