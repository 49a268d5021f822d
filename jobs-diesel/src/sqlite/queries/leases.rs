//! `leases`: the valid leases of a worker.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::{JobId, WorkerId};

use crate::sqlite::literal::RUNNING;
use crate::sqlite::schema::jobs_job;
use crate::sqlite::types::Worker;

pub(crate) fn leases(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<Vec<(JobId, i32)>> {
    let held: Vec<(i64, i32)> = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .filter(jobs_job::worker.eq(Worker(worker)))
        .select((jobs_job::id, jobs_job::lease))
        .load(conn)?;
    Ok(held.into_iter().map(|(id, number)| (JobId(id), number)).collect())
}
