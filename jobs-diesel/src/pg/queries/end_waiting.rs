//! The jobs that `expire` and `end_full` have found are ended by their ids, if they are still in the same state. Rows
//! that another session has locked are passed over, and a later call finds them.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::__private::expired;
use diesel_jobs_core::storage::EndedWaiting;
use diesel_jobs_core::{Failure, JobState, flags};

use super::columns::{CARRIED, READY};
use super::discard::IntoDiscarded;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

/// The condition for jobs that the database has refused to end and that are not tried again yet. The id of the
/// job and `)` come after it. Such a row of `jobs.admission_failure` has no key.
pub(super) const IS_NOT_LEFT_OUT: &str = "not exists (
        select from jobs.admission_failure f where f.limit_name = '' and f.limit_key = '' and f.next_at > statement_timestamp() and f.job_id = ";

/// Jobs that end in the same way and for the same reason.
pub(crate) struct Ending {
    pub(crate) ids: Vec<i64>,
    /// Discarded or cancelled.
    state: JobState,
    reason: Failure,
    keep_seconds: f64,
    /// Only jobs with this flag end.
    flag: i32,
}

impl Ending {
    pub(crate) fn expired(ids: Vec<i64>, keep_seconds: f64) -> Self {
        Self { ids, state: JobState::Cancelled, reason: expired(), keep_seconds, flag: flags::EXPIRES }
    }

    pub(crate) fn full(ids: Vec<i64>, state: JobState, reason: Failure, keep_seconds: f64) -> Self {
        Self { ids, state, reason, keep_seconds, flag: flags::ON_FULL }
    }

    /// Ends those of these jobs that are still in the same state.
    pub(crate) async fn end(&self, conn: &mut AsyncPgConnection, ids: &[i64]) -> QueryResult<Vec<EndedWaiting>> {
        let rows: Vec<(String, String)> = match self.state {
            JobState::Discarded => DiscardFullQuery::new(ids, self).load(conn).await?,
            _ => CancelWaitingQuery { ids, ending: self }.load(conn).await?,
        };
        Ok(ended_as(self.state, rows))
    }
}

pub(crate) fn ended_as(state: JobState, rows: Vec<(String, String)>) -> Vec<EndedWaiting> {
    rows.into_iter().map(|(queue, kind)| EndedWaiting { queue, kind, state }).collect()
}

/// Discards those of these jobs that still wait for their first attempt.
struct DiscardFullQuery<'a> {
    ids: &'a [i64],
    into_discarded: IntoDiscarded,
}

impl<'a> DiscardFullQuery<'a> {
    fn new(ids: &'a [i64], Ending { reason, keep_seconds, .. }: &Ending) -> Self {
        let (why, fingerprint) = (reason.message.clone(), reason.fingerprint);
        Self { ids, into_discarded: IntoDiscarded { keep_seconds: *keep_seconds, actor: None, fingerprint, why } }
    }
}

impl QueryFragment<Pg> for DiscardFullQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.held where ctid = any(array(
        select found.ctid from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
            select ctid from jobs.held where id = wanted.id and flags & 64 <> 0 and lease = 0 and not later and not paused and " {FlagsKnown("held")} "
            for update skip locked
        ) found
    ))
    returning " READY ", " CARRIED "
" {self.into_discarded} "
select queue, kind from ended where (select count(*) from followed) >= 0"
        )
    }
}

native_query!(DiscardFullQuery<'a> -> (Text, Text));

/// Cancels these jobs. Those with a full limit may also run.
struct CancelWaitingQuery<'a> {
    ids: &'a [i64],
    ending: &'a Ending,
}

impl QueryFragment<Pg> for CancelWaitingQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Ending { reason, keep_seconds, flag, .. } = self.ending;
        sql!(
            out,
            "select queue, kind from jobs.cancel_jobs(" [self.ids => Array<BigInt>] ", " [reason.message => Text] ", null,
        " [reason.fingerprint => BigInt] ", " [*keep_seconds => Double] ", " [*flag => Integer] ")"
        )
    }
}

native_query!(CancelWaitingQuery<'a> -> (Text, Text));

/// Notes that the database has refused to end a job. It is tried again after a second, and later each time, up to a
/// minute. Returns its kind and its queue, and nothing if there is no such job any more.
pub(crate) struct NoteQuery {
    pub(crate) id: i64,
    pub(crate) problem: String,
}

impl QueryFragment<Pg> for NoteQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with job as materialized (
    select kind, queue from jobs.held where id = " [self.id => BigInt] "
    union all select kind, queue from jobs.ready where id = " [self.id => BigInt] "
    union all select kind, queue from jobs.running where id = " [self.id => BigInt] "
    limit 1
)
select kind, queue from job where jobs.note_failure('', '', " [self.id => BigInt] ", null, " [self.problem => Text] ") is not null"
        )
    }
}

native_query!(NoteQuery -> (Text, Text));
