//! Held jobs and their admission. A held job is available, has the flag `HELD`, its time in `due_at`, and a `run_at` in the year 9999.
//! Triggers of the schema delete slots and write nudges.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use diesel_jobs_core::flags::{HELD, LIMITED};
use diesel_jobs_core::storage::{Admission, Claim, HeldBy, MOST_AHEAD, MOST_SHOWN};
use diesel_jobs_core::{JobId, JobLimit};

use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::time::{FAR, NOW};

/// Nudges per pass.
const MOST_NUDGES: usize = 1000;
/// Keys per sweep.
const MOST_KEYS: usize = 1000;

#[derive(QueryableByName, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    #[diesel(sql_type = Text)]
    limit_name: String,
    #[diesel(sql_type = Text)]
    limit_key: String,
}

#[derive(QueryableByName)]
struct Yes {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// Holds a job with a limit that is available. Its slot is given back. Jobs without a limit are not changed.
pub(crate) fn hold(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let hold = format!(
        "update jobs_job set flags = flags | {HELD}, due_at = run_at, run_at = {FAR} where id = ?1 and flags & {LIMITED} and state = 'available'"
    );
    sql_query(hold).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Makes a held job due now. It still waits for its limit.
pub(crate) fn hold_until_now(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let due =
        format!("update jobs_job set flags = flags, due_at = min(due_at, {NOW}) where id = ?1 and flags & {HELD}");
    sql_query(due).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Makes a held job available without a slot, for the testing kit, which runs one job at a time.
#[cfg(feature = "testing")]
pub(crate) fn unhold(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let free = format!(
        "update jobs_job set flags = flags & ~{HELD}, run_at = due_at, due_at = null where id = ?1 and flags & {HELD} and state = 'available'"
    );
    sql_query(free).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Whether a job with a limit has no slot, because it is held or has ended.
pub(crate) fn needs_slot(conn: &mut SqliteConnection, job: JobId) -> QueryResult<bool> {
    let needs = format!(
        "select exists (select 1 from jobs_job where id = ?1 and flags & {LIMITED}
                        and (flags & {HELD} or state not in ('available', 'running'))) as yes"
    );
    let found: Yes = sql_query(needs).bind::<BigInt, _>(job.0).get_result(conn)?;
    Ok(found.yes)
}

/// The condition for held jobs of the key `?1`, `?2` that may start. `flags & 2` selects the index.
fn candidates() -> String {
    format!(
        "from jobs_job where flags & 2 and limit_name = ?1 and limit_key = ?2 and due_at <= {NOW} and state = 'available'
         and queue not in (select name from jobs_queue where paused) and kind not in (select name from jobs_kind where paused)
         order by priority desc, due_at, id"
    )
}

/// How many jobs of the key may start: the limit of the first one, less the slots that are taken.
fn free(conn: &mut SqliteConnection, key: &Key) -> QueryResult<i64> {
    let candidates = candidates();
    let free: Option<Number> = sql_query(format!(
        "select head.most - (select count(*) from jobs_slot where limit_name = ?1 and limit_key = ?2) as number
         from (select flow ->> '$.most' as most {candidates} limit 1) head"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .get_result(conn)
    .optional()?;
    Ok(free.map_or(0, |free| free.number))
}

/// Whether there are held jobs, and whether there are nudges. Only reads.
pub(crate) fn state(conn: &mut SqliteConnection) -> QueryResult<(bool, bool)> {
    let nudges: Yes = sql_query("select exists (select 1 from jobs_nudge) as yes").get_result(conn)?;
    let holds: Yes =
        sql_query("select exists (select 1 from jobs_job indexed by jobs_job_held where flags & 2) as yes")
            .get_result(conn)?;
    Ok((holds.yes, nudges.yes))
}

/// The keys of which a job may start although nobody has nudged them, of the keys after `last`. Returns the key at which the next
/// sweep begins, too. Only reads.
pub(crate) fn sweep(conn: &mut SqliteConnection, mut last: Key) -> QueryResult<(Vec<Key>, Key)> {
    let mut found = Vec::new();
    for _ in 0..MOST_KEYS {
        let next: Option<Key> = sql_query(
            "select limit_name, limit_key from jobs_job indexed by jobs_job_held
             where flags & 2 and (limit_name, limit_key) > (?1, ?2) order by limit_name, limit_key limit 1",
        )
        .bind::<Text, _>(&last.limit_name)
        .bind::<Text, _>(&last.limit_key)
        .get_result(conn)
        .optional()?;
        let Some(next) = next else { return Ok((found, Key::default())) };
        if free(conn, &next)? > 0 {
            found.push(next.clone());
        }
        last = next;
    }
    Ok((found, last))
}

/// A pass of admission for the keys that were nudged, and these. The caller's transaction holds the write lock.
pub(crate) fn admit(conn: &mut SqliteConnection, mut keys: Vec<Key>) -> QueryResult<Admission> {
    if is_frozen(conn)? {
        return Ok(Admission::default());
    }
    let nudged: Vec<Key> = sql_query(format!(
        "delete from jobs_nudge where rowid in (select rowid from jobs_nudge limit {MOST_NUDGES}) returning limit_name, limit_key"
    ))
    .load(conn)?;
    let more = nudged.len() >= MOST_NUDGES;
    keys.extend(nudged);
    keys.sort_unstable();
    keys.dedup();
    let mut admitted = 0;
    for key in &keys {
        let free = free(conn, key)?;
        if free <= 0 {
            continue;
        }
        let candidates = candidates();
        let started: Vec<Number> = sql_query(format!(
            "update jobs_job set flags = flags & ~{HELD}, run_at = {NOW}, due_at = null where id in (select id {candidates} limit ?3)
             returning id as number"
        ))
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .bind::<BigInt, _>(free)
        .load(conn)?;
        for Number { number: job } in &started {
            sql_query("insert or ignore into jobs_slot (job_id, limit_name, limit_key) values (?1, ?2, ?3)")
                .bind::<BigInt, _>(job)
                .bind::<Text, _>(&key.limit_name)
                .bind::<Text, _>(&key.limit_key)
                .execute(conn)?;
        }
        admitted += started.len();
    }
    Ok(Admission { is_busy: false, admitted, more, holds: true })
}

#[derive(QueryableByName)]
struct HeldRow {
    #[diesel(sql_type = Text)]
    flow: String,
    #[diesel(sql_type = BigInt)]
    taken: i64,
    #[diesel(sql_type = BigInt)]
    ahead: i64,
}

/// What this job waits for, if it is held and due.
pub(crate) fn held_by(conn: &mut SqliteConnection, job: JobId) -> QueryResult<Option<HeldBy>> {
    let row: Option<HeldRow> = sql_query(format!(
        "select h.flow, (select count(*) from jobs_slot s where s.limit_name = h.limit_name and s.limit_key = h.limit_key) as taken,
                (select count(*) from (
                    select 1 from jobs_job o where o.flags & 2 and o.limit_name = h.limit_name and o.limit_key = h.limit_key
                      and o.due_at <= {NOW} and (-o.priority, o.due_at, o.id) < (-h.priority, h.due_at, h.id) limit ?2
                )) as ahead
         from jobs_job h where h.id = ?1 and h.flags & {HELD} and h.due_at <= {NOW}"
    ))
    .bind::<BigInt, _>(job.0)
    .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
    .get_result(conn)
    .optional()?;
    let Some(HeldRow { flow, taken, ahead }) = row else { return Ok(None) };
    let limit: JobLimit =
        serde_json::from_str(&flow).map_err(|error| diesel::result::Error::DeserializationError(error.into()))?;
    let holders: Vec<Number> = sql_query(
        "select job_id as number from jobs_slot where limit_name = ?1 and limit_key = ?2 order by job_id limit ?3",
    )
    .bind::<Text, _>(&limit.name)
    .bind::<Text, _>(&limit.key)
    .bind::<BigInt, _>(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
    .load(conn)?;
    let holders = holders.into_iter().map(|row| JobId(row.number)).collect();
    Ok(Some(HeldBy { limit, taken: taken.unsigned_abs(), holders, ahead: u32::try_from(ahead).unwrap_or(u32::MAX) }))
}

#[derive(QueryableByName)]
struct Due {
    #[diesel(sql_type = Nullable<BigInt>)]
    micros: Option<i64>,
}

/// The time until the first held job of these queues and kinds is due. Reads all held jobs.
pub(crate) fn next_held(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    let list = |names: Vec<&str>| serde_json::to_string(&names).unwrap_or_default();
    let due: Due = sql_query(format!(
        "select min(due_at) - {NOW} as micros from jobs_job indexed by jobs_job_held
         where flags & 2 and queue in (select value from json_each(?1)) and kind in (select value from json_each(?2))
           and queue not in (select name from jobs_queue where paused) and kind not in (select name from jobs_kind where paused)
           and not exists (select 1 from jobs_installation where frozen_at is not null)"
    ))
    .bind::<Text, _>(list(claim.wanted.iter().map(|wanted| &*wanted.queue).collect()))
    .bind::<Text, _>(list(claim.kinds.iter().map(String::as_str).collect()))
    .get_result(conn)?;
    Ok(due.micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}
