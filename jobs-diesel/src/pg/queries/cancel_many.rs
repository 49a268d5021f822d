//! `cancel_enqueued_before`: cancels waiting and running jobs that were enqueued before a time, one batch at a time.
//! Unlike a claim it waits for locked rows. An operator who discards the jobs of a copy must be sure that none is left.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::{Action, CANCELLED_WITH_ALL};

use super::audited::{Actor, Audited};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct CancelManyQuery {
    before: DateTime<Utc>,
    limit: i64,
    actor: Option<String>,
    audited: Audited,
}

impl CancelManyQuery {
    pub(crate) fn new(before: DateTime<Utc>, limit: i64, actor: Actor<'_>) -> Self {
        Self { before, limit, actor: actor.named(), audited: Audited::new("ended", &Action::Cancel, actor) }
    }
}

impl QueryFragment<Pg> for CancelManyQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with ended as (
    select id from jobs.cancel_jobs(jobs.lock_each(array(
        (select id from jobs.held where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("held")} " limit " [self.limit => BigInt] ")
        union all
        (select id from jobs.ready where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("ready")} " limit " [self.limit => BigInt] ")
        union all
        (select id from jobs.running where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("running")} " limit " [self.limit => BigInt] ")
    ), 'cancel'), " [CANCELLED_WITH_ALL => Text] ", " [self.actor => Nullable<Text>] ")
)" {self.audited} "
select count(*) from ended"
        )
    }
}

native_query!(CancelManyQuery -> BigInt);
