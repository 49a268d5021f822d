//! A part of `surroundings`: each rule of a job with several ones. It reads one row of each rule, and counts its
//! permits. It locks no rows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{HeldBy, LimitSetting, MOST_SHOWN, Tokens};
use diesel_jobs_core::{JobId, JobRule, Rules};

use super::limit_setting;

const EACH: &str = "
select (select count(*) from jobs.permit s where s.limit_name = $1 and s.limit_key = $2) as taken,
       array(select s.job_id from jobs.permit s where s.limit_name = $1 and s.limit_key = $2 order by s.job_id limit $3) as holders, now() as now,
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

/// What an operator has set for this rule. Only limits can be set.
pub(super) async fn setting(conn: &mut AsyncPgConnection, rule: &JobRule) -> QueryResult<Option<LimitSetting>> {
    if rule.rule.most().is_some() { limit_setting::one(conn, &rule.name).await } else { Ok(None) }
}

/// Each of the rules. None if the job has only one.
pub(super) async fn each(conn: &mut AsyncPgConnection, rules: &Rules) -> QueryResult<Vec<HeldBy>> {
    let mut several = Vec::new();
    for rule in rules.iter().filter(|_| rules.are_several()) {
        let row: Row = sql_query(EACH)
            .bind::<Text, _>(&rule.name)
            .bind::<Text, _>(&rule.key)
            .bind::<BigInt, _>(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
            .get_result(conn)
            .await?;
        several.push(HeldBy {
            tokens: Tokens::of(rule.rule, row.lack.unwrap_or_default(), 0, row.now),
            rule: rule.clone(),
            set: setting(conn, rule).await?,
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
