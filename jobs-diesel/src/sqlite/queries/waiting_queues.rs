//! `waiting_queues`: the queues in which jobs wait, held jobs included. It reads one index entry per queue.

use diesel::SqliteConnection;
use diesel::prelude::*;

use crate::sqlite::literal::AVAILABLE;
use crate::sqlite::schema::jobs_job;

pub(crate) fn waiting_queues(conn: &mut SqliteConnection) -> QueryResult<Vec<String>> {
    let mut queues: Vec<String> = Vec::new();
    loop {
        let waiting = jobs_job::table.filter(jobs_job::state.eq(AVAILABLE)).order(jobs_job::queue);
        let next: Option<String> = match queues.last() {
            None => waiting.select(jobs_job::queue).first(conn).optional()?,
            Some(last) => waiting.filter(jobs_job::queue.gt(last)).select(jobs_job::queue).first(conn).optional()?,
        };
        match next {
            Some(queue) => queues.push(queue),
            None => return Ok(queues),
        }
    }
}
