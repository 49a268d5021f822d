//! A part of `surroundings`: each limit of a job with several ones. It reads one row of each limit, and counts its slots. It locks no rows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{HeldBy, MOST_SHOWN, Tokens};
use diesel_jobs_core::{JobId, JobLimit};

use super::limit_setting;

const EACH: &str = "
select (select count(*) from jobs.slot s where s.limit_name = $1 and s.limit_key = $2) as taken,
       array(select s.job_id from jobs.slot s where s.limit_name = $1 and s.limit_key = $2 order by s.job_id limit $3) as holders, now() as now,
       (select (extract(epoch from r.full_at - now()) * 1000000)::bigint from jobs.rate r where r.limit_name = $1 and r.limit_key = $2) as lack";

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    taken: i64,
    #[diesel(sql_type = Array<BigInt>)]
    holders: Vec<i64>,
    #[diesel(sql_type = Timestamptz)]
    now: DateTime<Utc>,
    #[diesel(sql_type = Nullable<BigInt>)]
    lack: Option<i64>,
}

/// Each of the limits. None if the job has only one.
pub(super) async fn each(conn: &mut AsyncPgConnection, limit: &JobLimit) -> QueryResult<Vec<HeldBy>> {
    let mut several = Vec::new();
    if !limit.is_several() {
        return Ok(several);
    }
    for limit in limit.each() {
        let row: Row = sql_query(EACH)
            .bind::<Text, _>(&limit.name)
            .bind::<Text, _>(&limit.key)
            .bind::<BigInt, _>(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
            .get_result(conn)
            .await?;
        let is_limit = limit.sequence.is_none() && limit.rate.is_none();
        let set = if is_limit { limit_setting::one(conn, &limit.name).await? } else { None };
        several.push(HeldBy {
            tokens: Tokens::of(&limit, row.lack.unwrap_or_default(), 0, row.now),
            limit,
            set,
            taken: row.taken.unsigned_abs(),
            holders: row.holders.into_iter().map(JobId).collect(),
            ahead: 0,
            other_tenants: None,
            next: None,
            halted: None,
            several: Vec::new(),
            now: row.now,
        });
    }
    Ok(several)
}
