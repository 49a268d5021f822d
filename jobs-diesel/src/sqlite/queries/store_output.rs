//! `store_output`: stores what a handler returned, in the transaction that finishes its job. Nothing is stored if the
//! lease is lost. An output replaces that of an earlier attempt.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel_jobs_core::{Lease, Output};

use crate::sqlite::types::Worker;

pub(crate) fn store_output(conn: &mut SqliteConnection, lease: Lease, output: &Output) -> QueryResult<()> {
    let stored = diesel::sql_query(
        "insert into jobs_output (job_id, lease, value, note)
         select id, lease, ?4, ?5 from jobs_job where id = ?1 and lease = ?2 and worker = ?3 and state = 'running'
         on conflict (job_id) do update set lease = excluded.lease, value = excluded.value, note = excluded.note",
    )
    .bind::<BigInt, _>(lease.job.0)
    .bind::<Integer, _>(lease.number)
    .bind::<Text, _>(Worker(lease.worker))
    .bind::<Nullable<Text>, _>(output.json())
    .bind::<Nullable<Text>, _>(output.note());
    stored.execute(conn).map(drop)
}
