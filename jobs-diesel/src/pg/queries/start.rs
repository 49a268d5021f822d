//! `start`: makes one waiting job a running one, for the testing kit. The job need not be due, and the worker need not be
//! registered.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::BigInt;
use diesel_jobs_core::{JobId, WorkerId};

use super::claim::{IntoRunning, Row};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct StartQuery {
    job: i64,
    into_running: IntoRunning,
}

impl StartQuery {
    pub(crate) fn new(job: JobId, worker: WorkerId) -> Self {
        Self { job: job.0, into_running: IntoRunning(worker) }
    }
}

impl QueryFragment<Pg> for StartQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with claimed as (
    delete from jobs.ready where id = " [self.job => BigInt] " and " {FlagsKnown("ready")} "
    " {self.into_running}
        )
    }
}

native_query!(StartQuery -> Row);
