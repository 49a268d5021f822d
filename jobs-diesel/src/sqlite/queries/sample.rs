//! `sample_jobs` and `sample`: whose turn it is to count all jobs, and what was counted.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::dsl::{insert_into, select, update};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::{JobState, KindStats, Sample};

use crate::sqlite::schema::jobs_sample as sample;
use crate::sqlite::time::{NOW, Now, after};
use crate::sqlite::types::Instant;
use crate::stored_history::JobCounts;

/// How long a turn is reserved. If the worker dies, the next one counts after this time.
const TURN: Duration = Duration::from_secs(120);
/// The longest rest.
const LONGEST: Duration = Duration::from_secs(25 * 3600);
/// Rows per part. A part takes some ten milliseconds, and meanwhile the worker's other reads wait.
const PART: i64 = 10_000;

/// The time until the next turn. `None` if it is due. Only reads.
pub(crate) fn next(conn: &mut SqliteConnection) -> QueryResult<Option<Duration>> {
    let now: i64 = select(Now).get_result(conn)?;
    let next: Option<i64> = sample::table.select(sample::next_at).first(conn).optional()?;
    let micros = next.and_then(|next| u64::try_from(next.saturating_sub(now)).ok()).filter(|micros| *micros > 0);
    // No worker rests for longer: the clock has gone back.
    Ok(micros.map(Duration::from_micros).filter(|wait| *wait <= LONGEST))
}

/// Takes the turn. Returns `None`, or the time until the next turn if another worker has it.
pub(crate) fn take_turn(conn: &mut SqliteConnection) -> QueryResult<Option<Duration>> {
    if let Some(wait) = next(conn)? {
        return Ok(Some(wait));
    }
    insert_into(sample::table).values(sample::only_row.eq(1)).on_conflict_do_nothing().execute(conn)?;
    update(sample::table).set(sample::next_at.eq(after(TURN))).execute(conn)?;
    Ok(None)
}

#[derive(QueryableByName)]
struct Part {
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = BigInt)]
    jobs: i64,
    #[diesel(sql_type = BigInt)]
    last: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    waited: Option<i64>,
}

/// Counts the next part of the jobs, in the order of their ids. Returns the last id, or `None` if no job was left.
pub(crate) fn count_part(conn: &mut SqliteConnection, last: i64, counts: &mut JobCounts) -> QueryResult<Option<i64>> {
    let parts: Vec<Part> = diesel::sql_query(format!(
        "select queue, kind, stands as state, count(*) as jobs, max(id) as last,
                case when stands = 'available' then {NOW} - min(run_at) end as waited
         from (select id, queue, kind, run_at,
                      case when state <> 'available' then state when due_at <= {NOW} then 'held' when run_at <= {NOW} then 'available'
                           when attempt > 0 then 'retrying' else 'scheduled' end as stands
               from jobs_job where id > ?1 order by id limit {PART})
         group by queue, kind, stands"
    ))
    .bind::<BigInt, _>(last)
    .load(conn)?;
    let last = parts.iter().map(|part| part.last).max();
    for Part { queue, kind, state, jobs, waited, .. } in parts {
        let state: JobState =
            state.parse().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))?;
        counts.add(queue, kind, state, jobs, waited.map(|micros| micros as f64 / 1e6));
    }
    Ok(last)
}

/// Stores what was counted.
pub(crate) fn store(
    conn: &mut SqliteConnection,
    took: Duration,
    kinds: &[KindStats],
    rest: Duration,
) -> QueryResult<()> {
    let counts =
        serde_json::to_string(kinds).map_err(|error| diesel::result::Error::SerializationError(error.into()))?;
    update(sample::table)
        .set((
            sample::at.eq(Now.nullable()),
            sample::took_seconds.eq(took.as_secs_f64()),
            sample::counts.eq(counts),
            sample::next_at.eq(after(rest)),
        ))
        .execute(conn)
        .map(drop)
}

/// What was counted last.
pub(crate) fn read(conn: &mut SqliteConnection) -> QueryResult<Option<Sample>> {
    type Row = (Option<Instant>, f64, Option<String>, String);
    let now: i64 = select(Now).get_result(conn)?;
    let columns = (sample::at, sample::took_seconds, sample::resting, sample::counts);
    let row: Option<Row> = sample::table.select(columns).first(conn).optional()?;
    let Some((at, took_seconds, resting, counts)) = row else { return Ok(None) };
    let at = at.map(|at| at.0);
    let age_seconds = at.map(|at| now.saturating_sub(at.timestamp_micros()) as f64 / 1e6);
    let kinds =
        serde_json::from_str(&counts).map_err(|error| diesel::result::Error::DeserializationError(error.into()))?;
    Ok(Some(Sample { at, age_seconds, took_seconds, resting, kinds }))
}
