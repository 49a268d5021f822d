//! `limits` and `limit_keys`: how many jobs wait for each limit, and the keys with waiting jobs. Names and keys are
//! found by one probe each in `jobs_job_held` and `jobs_permit_key`. Rows are counted up to a limit. So a bounded
//! number of entries is read.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{AfterKey, COUNTED_OF_LIMIT, Count, LimitKey, LimitStats, MOST_LIMITS, MOST_SHOWN};

use crate::sqlite::queries::limit_setting;
use crate::sqlite::time::NOW;
use crate::sqlite::types::Instant;

/// One row more than is counted, which shows that there are more.
const READ: u64 = COUNTED_OF_LIMIT + 1;

/// The jobs that only their limits hold back, by the index of admission. Jobs of a sequence are not among them.
const HELD: &str = "jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0";

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Nullable<Text>)]
    name: Option<String>,
}

#[derive(QueryableByName)]
struct Id {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// A count that has read at most [`READ`] rows.
fn count(jobs: i64) -> Count {
    let jobs = jobs.unsigned_abs();
    Count { jobs: jobs.min(COUNTED_OF_LIMIT), is_exact: jobs <= COUNTED_OF_LIMIT }
}

/// The limits that hold jobs back or have permits taken, by name.
pub(crate) fn limits(conn: &mut SqliteConnection) -> QueryResult<Vec<LimitStats>> {
    let mut limits: Vec<LimitStats> = Vec::new();
    while limits.len() < MOST_LIMITS {
        // No limit has an empty name.
        let last = limits.last().map_or("", |limit| limit.name.as_str());
        let next: Name = sql_query(format!(
            "select min(name) as name from (
                 select * from (select limit_name as name from {HELD} and limit_name > ?1 order by limit_name limit 1)
                 union all
                 select * from (select limit_name from jobs_permit where limit_name > ?1 order by limit_name limit 1))"
        ))
        .bind::<Text, _>(last)
        .get_result(conn)?;
        let Some(name) = next.name else { break };
        let mut number = |rows: &str| -> QueryResult<Count> {
            let counted = format!("select count(*) as number from (select 1 from {rows} limit {READ})");
            sql_query(counted).bind::<Text, _>(&name).get_result(conn).map(|Number { number }| count(number))
        };
        let held = number(&format!("{HELD} and limit_name = ?1"))?;
        let permits = number("jobs_permit where limit_name = ?1")?;
        let is_sequence = is_sequence(conn, &name)?;
        limits.push(LimitStats { name, held, permits, is_sequence });
    }
    Ok(limits)
}

/// Whether the first job that has a permit of this name has it as a job of a sequence.
fn is_sequence(conn: &mut SqliteConnection, name: &str) -> QueryResult<bool> {
    let row: Number = sql_query(
        "select coalesce((
             select s.halted_at is not null or exists (
                 select 1 from jobs_job where id = s.job_id and rules -> '$[0].rule.sequence' is not null and rules ->> '$[0].name' = s.limit_name
             ) from jobs_permit s where s.limit_name = ?1 limit 1
         ), 0) as number",
    )
    .bind::<Text, _>(name)
    .get_result(conn)?;
    Ok(row.number != 0)
}

#[derive(QueryableByName)]
struct First {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = BigInt)]
    most: i64,
}

/// Held jobs of a key: how many rows were read, and of the due ones the number and the oldest.
#[derive(QueryableByName)]
pub(super) struct Held {
    #[diesel(sql_type = BigInt)]
    read: i64,
    #[diesel(sql_type = BigInt)]
    due: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    oldest: Option<Instant>,
}

impl Held {
    /// Those of the key in these rows.
    pub(super) fn of(conn: &mut SqliteConnection, rows: &str, name: &str, key: &str) -> QueryResult<Self> {
        sql_query(format!(
            "select count(*) as read, count(*) filter (where due_at <= {NOW}) as due, min(due_at) filter (where due_at <= {NOW}) as oldest
             from (select due_at from {rows} and limit_name = ?1 and limit_key = ?2 limit {READ})"
        ))
        .bind::<Text, _>(name)
        .bind::<Text, _>(key)
        .get_result(conn)
    }

    pub(super) fn count(&self) -> Count {
        Count { is_exact: self.read.unsigned_abs() < READ, ..count(self.due) }
    }

    pub(super) fn oldest(&self) -> Option<DateTime<Utc>> {
        self.oldest.as_ref().map(|at| at.0)
    }
}

/// The keys that hold jobs back, after this one.
pub(crate) fn limit_keys(
    conn: &mut SqliteConnection,
    after: Option<AfterKey>,
    limit: usize,
) -> QueryResult<Vec<LimitKey>> {
    let (mut after, mut keys) = (after.unwrap_or_default(), Vec::new());
    while keys.len() < limit {
        let first: Option<First> = sql_query(format!(
            "select limit_name as name, limit_key as key, most from {HELD} and limit_name > '' and (limit_name, limit_key) > (?1, ?2)
             order by limit_name, limit_key, priority desc, due_at, id limit 1"
        ))
        .bind::<Text, _>(&after.0)
        .bind::<Text, _>(&after.1)
        .get_result(conn)
        .optional()?;
        let Some(First { name, key, most }) = first else { break };
        let most = limit_setting::one(conn, &name)?.map_or(most, |set| i64::from(set.most));
        let permits = "from jobs_permit where limit_name = ?1 and limit_key = ?2";
        let taken: Number =
            sql_query(format!("select count(*) as number from (select 1 {permits} limit {})", most.saturating_add(1)))
                .bind::<Text, _>(&name)
                .bind::<Text, _>(&key)
                .get_result(conn)?;
        let holders: Vec<Id> = sql_query(format!("select job_id as id {permits} order by job_id limit {MOST_SHOWN}"))
            .bind::<Text, _>(&name)
            .bind::<Text, _>(&key)
            .load(conn)?;
        let held = Held::of(conn, HELD, &name, &key)?;
        keys.push(LimitKey {
            name: name.clone(),
            key: key.clone(),
            most: u32::try_from(most).unwrap_or_default(),
            taken: taken.number.unsigned_abs(),
            holders: holders.into_iter().map(|Id { id }| JobId(id)).collect(),
            held: held.count(),
            oldest: held.oldest(),
        });
        after = (name, key);
    }
    Ok(keys)
}
