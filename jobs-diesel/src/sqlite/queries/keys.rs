//! The keys of limits: their held jobs in the order of admission, and how many of them may start.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_jobs_core::JobId;

/// The condition for jobs whose queue or kind is paused.
pub(super) const PAUSED: &str =
    "(queue in (select name from jobs_queue where paused) or kind in (select name from jobs_kind where paused))";

/// The held jobs of the key `?1`, `?2` in the order of admission.
pub(super) const IN_ORDER: &str = "from jobs_job indexed by jobs_job_held
    where flags & 2 and held_back = 0 and flags & 12 = 0 and limit_name = ?1 and limit_key = ?2 and state = 'available' order by priority desc, due_at, id";

/// How many jobs of a key a pass reads while something is paused, beyond those that may start.
pub(super) const MOST_AHEAD: i64 = 500;

#[derive(QueryableByName, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    #[diesel(sql_type = Text)]
    pub(super) limit_name: String,
    #[diesel(sql_type = Text)]
    pub(super) limit_key: String,
}

#[derive(QueryableByName)]
pub(super) struct Yes {
    #[diesel(sql_type = Bool)]
    pub(super) yes: bool,
}

#[derive(QueryableByName)]
pub(super) struct Number {
    #[diesel(sql_type = BigInt)]
    pub(super) number: i64,
}

pub(super) fn yes(conn: &mut SqliteConnection, condition: &str) -> QueryResult<bool> {
    let found: Yes = sql_query(format!("select ({condition}) as yes")).get_result(conn)?;
    Ok(found.yes)
}

/// How many jobs of the key of the limit `?1` run at once: what an operator has set, else `most` of the job `head`.
pub(super) const ALLOWED: &str = "coalesce((select most from jobs_limit_setting where name = ?1), head.most)";

/// How many jobs of the key may start: the number that applies to the first one ([`ALLOWED`]), less the permits that
/// are taken.
pub(super) fn free(conn: &mut SqliteConnection, key: &Key) -> QueryResult<i64> {
    let free: Option<Number> = sql_query(format!(
        "select {ALLOWED} - (select count(*) from jobs_permit where limit_name = ?1 and limit_key = ?2) as number
         from (select most {IN_ORDER} limit 1) head"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .get_result(conn)
    .optional()?;
    Ok(free.map_or(0, |free| free.number))
}

/// How many permits of the key are taken.
pub(super) fn taken_permits(conn: &mut SqliteConnection, name: &str, key: &str) -> QueryResult<i64> {
    let taken: Number =
        sql_query("select count(*) as number from jobs_permit where limit_name = ?1 and limit_key = ?2")
            .bind::<Text, _>(name)
            .bind::<Text, _>(key)
            .get_result(conn)?;
    Ok(taken.number)
}

/// The first jobs of the key, in the order of admission `in_order`. While something is paused, it examines few jobs
/// more.
pub(super) fn first_jobs(
    conn: &mut SqliteConnection,
    key: &Key,
    in_order: &str,
    most: i64,
    pauses: bool,
) -> QueryResult<Vec<JobId>> {
    let next = if pauses {
        format!(
            "select id as number from (select id, queue, kind, priority, due_at {in_order} limit ?3 + {MOST_AHEAD})
             where not {PAUSED} order by priority desc, due_at, id limit ?3"
        )
    } else {
        format!("select id as number {in_order} limit ?3")
    };
    let ids: Vec<Number> = sql_query(next)
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .bind::<BigInt, _>(most)
        .load(conn)?;
    Ok(ids.into_iter().map(|row| JobId(row.number)).collect())
}
