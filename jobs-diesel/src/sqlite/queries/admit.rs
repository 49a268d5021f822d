//! `admit`: a pass of admission. A held job is available, has the flag `HELD`, its time in `due_at`, and a `run_at` in
//! the year 9999. Its `held_back` says whether it is in the order of admission (0), is not due (1), or was found paused
//! (2). Triggers of the schema delete permits and write nudges. Sequences are admitted in an order of their own, see
//! `sequence`, and jobs with a rate when there is a token, see `rate`. Tenants take turns, see `fair`.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::JobId;
use diesel_jobs_core::flags::HELD;
use diesel_jobs_core::storage::Admission;

use crate::sqlite::queries::admission::{Pass, nudge, set_paused_aside, start_all};
use crate::sqlite::queries::admission_failure::{self, LeftOut, forget, left_out, note};
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::queries::keys::{IN_ORDER, Key, first_jobs, free, yes};
use crate::sqlite::queries::sweep::{Sweep, put_in_order};
use crate::sqlite::queries::{fair, lanes, rate, sequence, several};
use crate::sqlite::time::{FAR, NOW};

/// Nudges per pass.
const MOST_NUDGES: usize = 1000;

/// Whether there are held jobs, and whether there are nudges or new tokens. Only reads.
pub(crate) fn state(conn: &mut SqliteConnection) -> QueryResult<(bool, bool)> {
    let holds = yes(
        conn,
        "exists (select 1 from jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0)
         or exists (select 1 from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1)
         or exists (select 1 from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2)
         or exists (select 1 from jobs_job indexed by jobs_job_held_sequence where flags & 2 and flags & 4)
         or exists (select 1 from jobs_job indexed by jobs_job_held_rate where flags & 2 and held_back = 0 and flags & 8)",
    )?;
    let nudges =
        format!("exists (select 1 from jobs_nudge) or {}{NOW}) or {}{NOW})", rate::IS_DUE, admission_failure::IS_DUE);
    Ok((holds, yes(conn, &nudges)?))
}

/// A pass of admission for the keys that were nudged, and for what a sweep has found. The caller's transaction holds
/// the write lock.
pub(crate) fn admit(conn: &mut SqliteConnection, sweep: Sweep) -> QueryResult<Admission> {
    if is_frozen(conn)? {
        return Ok(Admission::default());
    }
    let (mut keys, sweep_again) = put_in_order(conn, sweep)?;
    let nudged: Vec<Key> = sql_query(format!(
        "delete from jobs_nudge where rowid in (select rowid from jobs_nudge limit {MOST_NUDGES}) returning limit_name, limit_key"
    ))
    .load(conn)?;
    let more = sweep_again || nudged.len() >= MOST_NUDGES;
    keys.extend(nudged);
    keys.extend(rate::due_keys(conn)?);
    let LeftOut { waiting, due } = left_out(conn)?;
    keys.extend(due.iter().cloned());
    keys.retain(|key| !waiting.contains(key));
    keys.sort_unstable();
    keys.dedup();
    let pauses =
        yes(conn, "exists (select 1 from jobs_queue where paused) or exists (select 1 from jobs_kind where paused)")?;
    let what = What { pauses, has_several: lanes::exist(conn)?, has_tenants: fair::exist(conn)? };
    let mut pass = Pass { more, ..Pass::default() };
    for key in &keys {
        // A key at which something fails must not stop the others.
        match conn.transaction(|conn| admit_key(conn, key, what)) {
            Ok(of_key) => pass.add(of_key),
            Err(error) => note(conn, key, None, error)?,
        }
    }
    for lane in std::mem::take(&mut pass.lanes) {
        let key = Key { limit_name: String::new(), limit_key: lane };
        if waiting.contains(&key) {
            continue;
        }
        let in_lane = conn.transaction(|conn| {
            let mut of_lane = Pass::default();
            several::free_in_lane(conn, &mut of_lane, &key, pauses).map(|()| of_lane)
        });
        match in_lane {
            Ok(of_lane) => pass.add(of_lane),
            Err(error) => note(conn, &key, None, error)?,
        }
    }
    // Those at which it has failed again have a later time.
    let LeftOut { due: again, .. } = left_out(conn)?;
    for key in due.iter().filter(|key| again.contains(key)) {
        forget(conn, key)?;
    }
    let Pass { admitted, refused, more, .. } = pass;
    Ok(Admission { admitted, more, sweep_again, holds: Some(true), refused, ..Admission::default() })
}

/// What there is in the file.
#[derive(Clone, Copy)]
struct What {
    pauses: bool,
    has_several: bool,
    has_tenants: bool,
}

/// Admits the jobs of one key.
fn admit_key(conn: &mut SqliteConnection, key: &Key, what: What) -> QueryResult<Pass> {
    let What { pauses, has_several, has_tenants } = what;
    let mut pass = Pass::default();
    if key.limit_name.is_empty() {
        pass.lanes.insert(key.limit_key.clone());
        return Ok(pass);
    }
    let mut goes_on = pauses && (set_paused_aside(conn, key, IN_ORDER)? | set_paused_aside(conn, key, rate::IN_ORDER)?);
    let mut ids = if has_tenants && fair::wait(conn, key)? {
        let (ids, has_more) = fair::free_jobs(conn, key, pauses)?;
        goes_on |= has_more;
        ids
    } else {
        free_jobs(conn, key, pauses)?
    };
    ids.extend(sequence::free_job(conn, key)?);
    ids.extend(rate::free_jobs(conn, key, pauses)?);
    let several = if has_several { several::take_out(conn, &mut ids)? } else { Vec::new() };
    let started = start_all(conn, &ids, |conn, id| start(conn, key, id))?;
    pass.count(started);
    several::admit(conn, &mut pass, key, &several)?;
    if goes_on || started.discarded + started.put_off > 0 {
        // The next pass examines the jobs behind them.
        nudge(conn, key)?;
        pass.more = true;
    }
    Ok(pass)
}

/// The next jobs of the key for which permits are free. While something is paused, it examines few jobs more than there
/// are free permits.
fn free_jobs(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<Vec<JobId>> {
    let free = free(conn, key)?;
    if free <= 0 {
        return Ok(Vec::new());
    }
    first_jobs(conn, key, IN_ORDER, free, pauses)
}

/// Gives the job a permit, unless it has a rate.
fn start(conn: &mut SqliteConnection, key: &Key, id: JobId) -> QueryResult<()> {
    let free = format!(
        "update jobs_job set flags = flags & ~{HELD}, run_at = {NOW}, due_at = null where id = ?1 and run_at = {FAR}"
    );
    sql_query(free).bind::<BigInt, _>(id.0).execute(conn)?;
    sql_query("insert or ignore into jobs_permit (job_id, limit_name, limit_key) select id, ?2, ?3 from jobs_job where id = ?1 and flags & 8 = 0")
        .bind::<BigInt, _>(id.0)
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)?;
    // A discarded job that was retried does not halt its sequence any more.
    sql_query("update jobs_permit set halted_at = null where job_id = ?1 and halted_at is not null")
        .bind::<BigInt, _>(id.0)
        .execute(conn)
        .map(drop)
}
