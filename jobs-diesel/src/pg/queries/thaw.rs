//! `thaw`: ends a freeze, and notifies the idle workers of all queues. Enqueues during the freeze have notified them,
//! too, but they could not claim.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Text};

use crate::pg::native::{native_query, sql};

pub(crate) struct ThawQuery {
    /// Who ends it, for the audit.
    pub(crate) actor: String,
}

impl QueryFragment<Pg> for ThawQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with thawed as (
    update jobs.installation set frozen_at = null, frozen_by = null, frozen_reason = null where frozen_at is not null
    returning only_row
), audited as (
    insert into jobs.audit (actor, action, target) select " [self.actor => Text] ", 'thaw', 'the database' from thawed
)
select count(jobs.notify_workers(served.queue)) * 0 + (select count(*) from thawed)
from (select distinct unnest(queues) as queue from jobs.worker) served"
        )
    }
}

native_query!(ThawQuery -> BigInt);
