//! A worker with one transactional job, defined in the binary itself. The effects show the order in which jobs wrote
//! them.

use diesel::sql_types::{BigInt, SmallInt};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs::{JobContext, job};

/// Writes one effect, in the transaction that finishes the job.
#[job]
pub async fn touch(conn: &mut AsyncPgConnection, priority: i16, ctx: &JobContext) -> Result<(), diesel::result::Error> {
    diesel::sql_query("insert into touched (job, attempt, priority) values ($1, $2, $3)")
        .bind::<BigInt, _>(ctx.id().0)
        .bind::<SmallInt, _>(ctx.attempt().cast_signed())
        .bind::<SmallInt, _>(priority)
        .execute(conn)
        .await
        .map(|_| ())
}

diesel_jobs::worker!();
