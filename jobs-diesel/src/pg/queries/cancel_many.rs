//! `cancel_enqueued_before`: cancels waiting and running jobs that were enqueued before a time, one batch at a time.
//! Unlike a claim it waits for locked rows. An operator who discards the jobs of a copy must be sure that none is left.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Timestamptz};
use diesel_jobs_core::storage::{Action, CANCELLED_WITH_ALL};

use super::audited::{Actor, Audited};
use super::columns::{CARRIED, READY};
use super::operate::IntoCancelled;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct CancelManyQuery {
    before: DateTime<Utc>,
    limit: i64,
    into_cancelled: IntoCancelled,
    audited: Audited,
}

impl CancelManyQuery {
    pub(crate) fn new(before: DateTime<Utc>, limit: i64, keep_seconds: f64, actor: Actor<'_>) -> Self {
        Self {
            before,
            limit,
            into_cancelled: IntoCancelled::new(keep_seconds, CANCELLED_WITH_ALL.to_owned(), actor.named()),
            audited: Audited::new("ended", &Action::Cancel, actor),
        }
    }
}

impl QueryFragment<Pg> for CancelManyQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.ready where ctid = any(array(
        select ctid from jobs.ready where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("ready")} "
        limit " [self.limit => BigInt] " for update
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), held as (
    delete from jobs.held where ctid = any(array(
        select ctid from jobs.held where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("held")} "
        limit " [self.limit => BigInt] " for update
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), running as (
    delete from jobs.running where ctid = any(array(
        select ctid from jobs.running where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("running")} "
        limit " [self.limit => BigInt] " for update
    ))
    returning " READY ", claimed_at, worker, " CARRIED "
" {self.into_cancelled} {self.audited} "
select count(*) from ended"
        )
    }
}

native_query!(CancelManyQuery -> BigInt);
