//! `sweep`: finds held jobs that have no nudge, because they have become due or were resumed. It also finds keys with a
//! job that may start, some of them in each sweep.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::JobId;

use crate::sqlite::queries::admission_failure::{IS_NOT_LEFT_OUT, forget_started, note};
use crate::sqlite::queries::keys::{Key, Number, PAUSED, Yes, free, yes};
use crate::sqlite::queries::{fair, lanes, rate, sequence};
use crate::sqlite::time::NOW;

/// Keys per sweep.
const MOST_KEYS: usize = 1000;
/// Jobs per sweep that have become due, or were resumed.
const MOST_JOBS: usize = 5000;

#[derive(QueryableByName, Clone, Default)]
struct Place {
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
}

/// What a sweep has found.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Keys without a nudge that have a job that may start.
    keys: Vec<Key>,
    /// Held jobs have become due.
    is_due: bool,
    /// The queues and kinds of jobs that were paused and are not paused any more.
    resumed: Vec<Place>,
    /// There are keys with a rate that have all their tokens again.
    is_full: bool,
    /// There are turns of keys that have no jobs.
    has_old_turns: bool,
    /// More keys come after the last one.
    is_cut: bool,
}

/// Where the last sweep has ended: the last key, the last sequence, and the last key with a rate.
pub(crate) type SweptTo = (Key, Key, Key);

impl Sweep {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.is_due && self.resumed.is_empty() && !self.is_full && !self.has_old_turns
    }
}

/// What has no nudge: the keys after `last`, and all jobs that are not in the order of admission. Returns where the
/// next sweep begins, too. Only reads.
pub(crate) fn sweep(conn: &mut SqliteConnection, last: SweptTo) -> QueryResult<(Sweep, SweptTo)> {
    let mut found = Sweep {
        resumed: resumed(conn)?,
        is_full: rate::has_old(conn)?,
        has_old_turns: fair::has_old(conn)?,
        ..Sweep::default()
    };
    found.is_due = yes(conn, &format!("exists (select 1 {})", are_due()))?;
    let keys = "jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0";
    let key = next_keys(conn, keys, last.0, &mut found, |conn, key| match key.limit_name.is_empty() {
        true => Ok(!lanes::waits_at_limit(conn, &key.limit_key)?),
        false => Ok(free(conn, key)? > 0),
    })?;
    let sequences = "jobs_job indexed by jobs_job_held_sequence where flags & 2 and flags & 4";
    let sequence =
        next_keys(conn, sequences, last.1, &mut found, |conn, key| Ok(sequence::next(conn, key)?.is_some()))?;
    let rate = next_keys(conn, rate::HELD, last.2, &mut found, rate::needs_look)?;
    Ok((found, (key, sequence, rate)))
}

/// Adds those of the keys after `last` that `may_start` chooses. Returns the last key, or the first one if there are no
/// more.
fn next_keys(
    conn: &mut SqliteConnection,
    from: &str,
    mut last: Key,
    found: &mut Sweep,
    may_start: impl Fn(&mut SqliteConnection, &Key) -> QueryResult<bool>,
) -> QueryResult<Key> {
    for _ in 0..MOST_KEYS {
        let next: Option<Key> = sql_query(format!(
            "select limit_name, limit_key from {from} and (limit_name, limit_key) > (?1, ?2) order by limit_name, limit_key limit 1"
        ))
        .bind::<Text, _>(&last.limit_name)
        .bind::<Text, _>(&last.limit_key)
        .get_result(conn)
        .optional()?;
        let Some(next) = next else { return Ok(Key::default()) };
        if may_start(conn, &next)? {
            found.keys.push(next.clone());
        }
        last = next;
    }
    found.is_cut = true;
    Ok(last)
}

/// The queues and kinds of jobs that were paused and are not paused any more. Reads one job of each queue and kind.
fn resumed(conn: &mut SqliteConnection) -> QueryResult<Vec<Place>> {
    let (mut found, mut last) = (Vec::new(), Place::default());
    loop {
        let next: Option<Place> = sql_query(
            "select queue, kind from jobs_job indexed by jobs_job_held_paused
             where flags & 2 and held_back = 2 and (queue, kind) > (?1, ?2) order by queue, kind limit 1",
        )
        .bind::<Text, _>(&last.queue)
        .bind::<Text, _>(&last.kind)
        .get_result(conn)
        .optional()?;
        let Some(next) = next else { return Ok(found) };
        let is_paused: Yes = sql_query(format!("select {PAUSED} as yes from (select ?1 as queue, ?2 as kind)"))
            .bind::<Text, _>(&next.queue)
            .bind::<Text, _>(&next.kind)
            .get_result(conn)?;
        if !is_paused.yes {
            found.push(next.clone());
        }
        last = next;
    }
}

/// Puts jobs that have become due or were resumed into the order of admission. Returns the keys that the pass checks,
/// and whether the next pass should sweep again at once.
pub(super) fn put_in_order(conn: &mut SqliteConnection, sweep: Sweep) -> QueryResult<(Vec<Key>, bool)> {
    let mut sweep_again = sweep.is_cut && !sweep.keys.is_empty();
    let mut keys = sweep.keys;
    let mut add = |found: Vec<Key>| {
        sweep_again |= found.len() >= MOST_JOBS;
        keys.extend(found);
    };
    if sweep.is_due {
        add(become_due(conn)?);
    }
    forget_started(conn)?;
    if sweep.is_full {
        rate::delete_old(conn)?;
    }
    if sweep.has_old_turns {
        fair::delete_old(conn)?;
    }
    for place in &sweep.resumed {
        add(resume(conn, place)?);
    }
    Ok((keys, sweep_again))
}

/// The held jobs that have become due.
fn are_due() -> String {
    format!(
        "from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1 and due_at <= {NOW} and {IS_NOT_LEFT_OUT}{NOW})"
    )
}

/// Puts jobs that have become due into the order of admission.
fn become_due(conn: &mut SqliteConnection) -> QueryResult<Vec<Key>> {
    let due = format!("select id as number {} order by due_at, id limit {MOST_JOBS}", are_due());
    let due = sql_query(due).load(conn)?;
    free_all(conn, &due)
}

/// Puts jobs that were paused into the order of admission.
fn resume(conn: &mut SqliteConnection, place: &Place) -> QueryResult<Vec<Key>> {
    let resumed = format!(
        "select id as number from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2 and queue = ?1 and kind = ?2
             and {IS_NOT_LEFT_OUT}{NOW})
         limit {MOST_JOBS}"
    );
    let resumed = sql_query(resumed).bind::<Text, _>(&place.queue).bind::<Text, _>(&place.kind).load(conn)?;
    free_all(conn, &resumed)
}

/// Puts these jobs into the order of admission. A job that a trigger refuses to change must not stop the others. It
/// stays where it is, and is tried again later.
fn free_all(conn: &mut SqliteConnection, jobs: &[Number]) -> QueryResult<Vec<Key>> {
    if let Ok(keys) = conn.transaction(|conn| jobs.iter().map(|job| free_one(conn, job)).collect()) {
        return Ok(keys);
    }
    let mut keys = Vec::new();
    for job in jobs {
        match conn.transaction(|conn| free_one(conn, job)) {
            Ok(key) => keys.push(key),
            Err(error) => {
                let key: Key = sql_query("select limit_name, limit_key from jobs_job where id = ?1")
                    .bind::<BigInt, _>(job.number)
                    .get_result(conn)?;
                note(conn, &key, Some(JobId(job.number)), error)?;
            }
        }
    }
    Ok(keys)
}

fn free_one(conn: &mut SqliteConnection, job: &Number) -> QueryResult<Key> {
    sql_query("update jobs_job set held_back = 0 where id = ?1 returning limit_name, limit_key")
        .bind::<BigInt, _>(job.number)
        .get_result(conn)
}
