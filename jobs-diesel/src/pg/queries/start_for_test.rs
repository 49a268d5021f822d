//! `start_for_test`: makes one waiting job a running one, for the testing kit. A held job gets no permit: the kit runs
//! one job at a time. The job need not be due, and the worker need not be registered.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::BigInt;
use diesel_jobs_core::{JobId, WorkerId};

use super::claim::{ClaimedIntoRunning, Row};
use super::columns::{CARRIED, READY};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct StartForTestQuery {
    job: i64,
    into_running: ClaimedIntoRunning,
}

impl StartForTestQuery {
    pub(crate) fn new(job: JobId, worker: WorkerId) -> Self {
        Self { job: job.0, into_running: ClaimedIntoRunning(worker) }
    }
}

impl QueryFragment<Pg> for StartForTestQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with held as (
    delete from jobs.held where id = " [self.job => BigInt] " and " {FlagsKnown("held")} " returning " READY ", " CARRIED "
), available as (
    delete from jobs.ready where id = " [self.job => BigInt] " and " {FlagsKnown("ready")} " returning " READY ", " CARRIED "
), claimed as (
    select * from available union all select * from held
)
" {self.into_running}
        )
    }
}

native_query!(StartForTestQuery -> Row);
