//! `store_progress` and `progress`: what handlers have reported of their jobs. A report is stored if the job was not
//! claimed again since, even if it has ended meanwhile.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_jobs_core::{JobId, Progress, ProgressReport};

use crate::sqlite::schema::job;
use crate::sqlite::time::NOW;
use crate::sqlite::types::Instant;
use crate::stored_progress::{Columns, number, stored};

pub(crate) fn store(conn: &mut SqliteConnection, reports: &[ProgressReport]) -> QueryResult<()> {
    for ProgressReport { lease, done, total, message } in reports {
        diesel::sql_query(format!(
            "insert into jobs_output (job_id, lease, progress_done, progress_total, progress_message, progress_at)
             select id, lease, ?3, ?4, ?5, {NOW} from jobs_job where id = ?1 and lease = ?2
             on conflict (job_id) do update set progress_done = excluded.progress_done,
                 progress_total = excluded.progress_total, progress_message = excluded.progress_message,
                 progress_at = excluded.progress_at"
        ))
        .bind::<BigInt, _>(lease.job.0)
        .bind::<Integer, _>(lease.number)
        .bind::<BigInt, _>(number(*done))
        .bind::<BigInt, _>(number(*total))
        .bind::<Text, _>(message)
        .execute(conn)?;
    }
    Ok(())
}

pub(crate) fn progress(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Option<Progress>> {
    let columns = (job::progress_done, job::progress_total, job::progress_message, job::progress_at);
    let row: Option<Columns<Instant>> = job::table.filter(job::id.eq(id.0)).select(columns).first(conn).optional()?;
    Ok(row.and_then(|(done, total, message, at)| stored((done, total, message, at.map(|at| at.0)))))
}
