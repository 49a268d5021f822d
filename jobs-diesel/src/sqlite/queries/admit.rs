//! `admit`: a pass of admission. A held job is available, has the flag `HELD`, its time in `due_at`, and a `run_at` in the year 9999. Its
//! `held_back` says whether it is in the order of admission (0), is not due (1), or was found paused (2). Triggers of the schema delete slots
//! and write nudges.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_jobs_core::flags::HELD;
use diesel_jobs_core::storage::Admission;
use diesel_jobs_core::{Failure, FailureKind, JobId};

use crate::sqlite::queries::act::end_as_discarded;
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::time::{FAR, NOW};

/// Nudges per pass.
const MOST_NUDGES: usize = 1000;
/// Keys per sweep.
const MOST_KEYS: usize = 1000;
/// Jobs per sweep that have become due, or were resumed.
const MOST_JOBS: usize = 5000;
/// Jobs of a key at which a pass looks while something is paused.
const MOST_AHEAD: i64 = 500;

/// The condition for jobs whose queue or kind is paused.
const PAUSED: &str =
    "(queue in (select name from jobs_queue where paused) or kind in (select name from jobs_kind where paused))";

#[derive(QueryableByName, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    #[diesel(sql_type = Text)]
    limit_name: String,
    #[diesel(sql_type = Text)]
    limit_key: String,
}

#[derive(QueryableByName, Clone, Default)]
struct Place {
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
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

/// What a sweep has found.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Keys of which a job may start although nobody has nudged them.
    keys: Vec<Key>,
    /// Held jobs have become due.
    is_due: bool,
    /// The queues and kinds of jobs that were paused and are not paused any more.
    resumed: Vec<Place>,
}

impl Sweep {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.is_due && self.resumed.is_empty()
    }
}

fn yes(conn: &mut SqliteConnection, condition: &str) -> QueryResult<bool> {
    let found: Yes = sql_query(format!("select ({condition}) as yes")).get_result(conn)?;
    Ok(found.yes)
}

/// Whether there are held jobs, and whether there are nudges. Only reads.
pub(crate) fn state(conn: &mut SqliteConnection) -> QueryResult<(bool, bool)> {
    let holds = yes(
        conn,
        "exists (select 1 from jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0)
         or exists (select 1 from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1)
         or exists (select 1 from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2)",
    )?;
    Ok((holds, yes(conn, "exists (select 1 from jobs_nudge)")?))
}

/// What nobody has told: of the keys after `last`, and of all jobs that are not in the order of admission. Returns the key at which the
/// next sweep begins, too. Only reads.
pub(crate) fn sweep(conn: &mut SqliteConnection, mut last: Key) -> QueryResult<(Sweep, Key)> {
    let mut found = Sweep { resumed: resumed(conn)?, ..Sweep::default() };
    let due = format!(
        "exists (select 1 from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1 and due_at <= {NOW})"
    );
    found.is_due = yes(conn, &due)?;
    for _ in 0..MOST_KEYS {
        let next: Option<Key> = sql_query(
            "select limit_name, limit_key from jobs_job indexed by jobs_job_held
             where flags & 2 and held_back = 0 and (limit_name, limit_key) > (?1, ?2) order by limit_name, limit_key limit 1",
        )
        .bind::<Text, _>(&last.limit_name)
        .bind::<Text, _>(&last.limit_key)
        .get_result(conn)
        .optional()?;
        let Some(next) = next else { return Ok((found, Key::default())) };
        if free(conn, &next)? > 0 {
            found.keys.push(next.clone());
        }
        last = next;
    }
    Ok((found, last))
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

/// A pass of admission for the keys that were nudged, and for what a sweep has found. The caller's transaction holds the write lock.
pub(crate) fn admit(conn: &mut SqliteConnection, sweep: Sweep) -> QueryResult<Admission> {
    if is_frozen(conn)? {
        return Ok(Admission::default());
    }
    let has_sweep_keys = !sweep.keys.is_empty();
    let mut keys = sweep.keys;
    let mut sweep_again = has_sweep_keys && keys.len() >= MOST_KEYS;
    let mut add = |found: Vec<Key>| {
        sweep_again |= found.len() >= MOST_JOBS;
        keys.extend(found);
    };
    if sweep.is_due {
        add(become_due(conn)?);
    }
    for place in &sweep.resumed {
        add(resume(conn, place)?);
    }
    let nudged: Vec<Key> = sql_query(format!(
        "delete from jobs_nudge where rowid in (select rowid from jobs_nudge limit {MOST_NUDGES}) returning limit_name, limit_key"
    ))
    .load(conn)?;
    let mut more = sweep_again || nudged.len() >= MOST_NUDGES;
    keys.extend(nudged);
    keys.sort_unstable();
    keys.dedup();
    let pauses =
        yes(conn, "exists (select 1 from jobs_queue where paused) or exists (select 1 from jobs_kind where paused)")?;
    let (mut admitted, mut refused) = (0, 0);
    for key in &keys {
        let goes_on = pauses && set_paused_aside(conn, key)?;
        let ids = free_jobs(conn, key, pauses)?;
        let started = start_all(conn, key, &ids)?;
        admitted += started;
        refused += ids.len() - started;
        if goes_on {
            // The next pass looks at the jobs behind them.
            nudge(conn, key)?;
            more = true;
        }
    }
    Ok(Admission { is_busy: false, admitted, more, sweep_again, holds: true, refused })
}

/// Puts jobs that have become due into the order of admission.
fn become_due(conn: &mut SqliteConnection) -> QueryResult<Vec<Key>> {
    let due = format!(
        "update jobs_job set held_back = 0 where id in (
             select id from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1 and due_at <= {NOW}
             order by due_at, id limit {MOST_JOBS}
         ) returning limit_name, limit_key"
    );
    sql_query(due).load(conn)
}

/// Puts jobs that were paused into the order of admission.
fn resume(conn: &mut SqliteConnection, place: &Place) -> QueryResult<Vec<Key>> {
    let resumed = format!(
        "update jobs_job set held_back = 0 where id in (
             select id from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2 and queue = ?1 and kind = ?2
             limit {MOST_JOBS}
         ) returning limit_name, limit_key"
    );
    sql_query(resumed).bind::<Text, _>(&place.queue).bind::<Text, _>(&place.kind).load(conn)
}

/// The held jobs of the key `?1`, `?2` in the order of admission.
const IN_ORDER: &str = "from jobs_job indexed by jobs_job_held
    where flags & 2 and held_back = 0 and limit_name = ?1 and limit_key = ?2 and state = 'available' order by priority desc, due_at, id";

/// Takes paused jobs at the front of the key out of the order of admission. Returns whether there were some: there may be more.
fn set_paused_aside(conn: &mut SqliteConnection, key: &Key) -> QueryResult<bool> {
    let paused = format!(
        "update jobs_job set held_back = 2 where id in (
             select id from (select id, queue, kind {IN_ORDER} limit {MOST_AHEAD}) where {PAUSED}
         )"
    );
    let aside = sql_query(paused).bind::<Text, _>(&key.limit_name).bind::<Text, _>(&key.limit_key).execute(conn)?;
    Ok(aside > 0)
}

/// How many jobs of the key may start: the limit of the first one, less the slots that are taken.
fn free(conn: &mut SqliteConnection, key: &Key) -> QueryResult<i64> {
    let free: Option<Number> = sql_query(format!(
        "select head.most - (select count(*) from jobs_slot where limit_name = ?1 and limit_key = ?2) as number
         from (select flow ->> '$.most' as most {IN_ORDER} limit 1) head"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .get_result(conn)
    .optional()?;
    Ok(free.map_or(0, |free| free.number))
}

/// The next jobs of the key for which slots are free. While something is paused, it looks at few jobs more than there are free slots.
fn free_jobs(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<Vec<JobId>> {
    let free = free(conn, key)?;
    if free <= 0 {
        return Ok(Vec::new());
    }
    let next = if pauses {
        format!(
            "select id as number from (select id, queue, kind, priority, due_at {IN_ORDER} limit ?3 + {MOST_AHEAD})
             where not {PAUSED} order by priority desc, due_at, id limit ?3"
        )
    } else {
        format!("select id as number {IN_ORDER} limit ?3")
    };
    let ids: Vec<Number> = sql_query(next)
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .bind::<BigInt, _>(free)
        .load(conn)?;
    Ok(ids.into_iter().map(|row| JobId(row.number)).collect())
}

fn nudge(conn: &mut SqliteConnection, key: &Key) -> QueryResult<()> {
    sql_query("insert into jobs_nudge (limit_name, limit_key) values (?1, ?2)")
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// Makes these jobs available and gives them slots. A job that the database refuses is discarded, so that it does not stop the others.
/// Returns how many are available.
fn start_all(conn: &mut SqliteConnection, key: &Key, ids: &[JobId]) -> QueryResult<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let at_once = conn.transaction(|conn| ids.iter().try_for_each(|id| start(conn, key, *id)));
    match at_once {
        Ok(()) => return Ok(ids.len()),
        Err(error) if !is_refusal(&error) => return Err(error),
        Err(_) => {}
    }
    let mut started = 0;
    for &id in ids {
        match conn.transaction(|conn| start(conn, key, id)) {
            Ok(()) => started += 1,
            Err(error) if is_refusal(&error) => refuse(conn, id, &error)?,
            Err(error) => return Err(error),
        }
    }
    Ok(started)
}

/// Parts of the messages of SQLite that are not about a row. Diesel has no error kinds for these, nor for what a trigger raises.
const NOT_ABOUT_A_ROW: [&str; 7] =
    ["locked", "disk", "interrupted", "out of memory", "readonly", "malformed", "no such"];

/// Whether a constraint or a trigger of the application refuses a row.
fn is_refusal(error: &Error) -> bool {
    use DatabaseErrorKind::{CheckViolation, ForeignKeyViolation, NotNullViolation, UniqueViolation, Unknown};
    match error {
        Error::DatabaseError(CheckViolation | ForeignKeyViolation | NotNullViolation | UniqueViolation, _) => true,
        Error::DatabaseError(Unknown, what) => !NOT_ABOUT_A_ROW.iter().any(|text| what.message().contains(text)),
        _ => false,
    }
}

fn start(conn: &mut SqliteConnection, key: &Key, id: JobId) -> QueryResult<()> {
    let free = format!(
        "update jobs_job set flags = flags & ~{HELD}, run_at = {NOW}, due_at = null where id = ?1 and run_at = {FAR}"
    );
    sql_query(free).bind::<BigInt, _>(id.0).execute(conn)?;
    sql_query("insert or ignore into jobs_slot (job_id, limit_name, limit_key) values (?1, ?2, ?3)")
        .bind::<BigInt, _>(id.0)
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// Discards the job. If this is refused, too, the job stays, and the next pass tries it again.
fn refuse(conn: &mut SqliteConnection, id: JobId, error: &Error) -> QueryResult<()> {
    let failure = Failure::new(FailureKind::Error, &format!("the database refused to make it available: {error}"));
    match conn.transaction(|conn| end_as_discarded(conn, id, &failure, None)) {
        Err(error) if is_refusal(&error) => {
            tracing::warn!(target: "diesel_jobs", { job.id = id.0, %error }, "a held job can neither start nor be discarded");
            Ok(())
        }
        other => other,
    }
}
