//! Tenants: those that wait for the same key of a limit take turns. Each gets one job, then each a second one, and so
//! on. In the next pass the tenant after the last one begins, which `jobs_fair_turn` says. Only admission changes this
//! table.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::storage::MOST_TENANTS;
use diesel_jobs_core::{JobId, JobRule};

use crate::sqlite::queries::keys::{IN_ORDER, Key, MOST_AHEAD, Number, PAUSED, free, yes};

/// The held jobs with a tenant that may start when its turn comes.
pub(super) const HELD: &str =
    "jobs_job indexed by jobs_job_held_fair where flags & 2 and held_back = 0 and flags & 256";

/// Jobs without a tenant are searched for among this many jobs of the key, so that no pass reads many jobs for them.
const MOST_BESIDE: i64 = 50;
/// How many turns a sweep checks.
const MOST_TURNS: i64 = 500;

#[derive(QueryableByName)]
struct Tenant {
    #[diesel(sql_type = Text)]
    tenant: String,
}

/// Whether jobs with tenants are held. Only reads.
pub(super) fn exist(conn: &mut SqliteConnection) -> QueryResult<bool> {
    yes(conn, &format!("exists (select 1 from {HELD})"))
}

/// Whether jobs with tenants wait for this key. Only reads.
pub(super) fn wait(conn: &mut SqliteConnection, key: &Key) -> QueryResult<bool> {
    let found: Number =
        sql_query(format!("select exists (select 1 from {HELD} and limit_name = ?1 and limit_key = ?2) as number"))
            .bind::<Text, _>(&key.limit_name)
            .bind::<Text, _>(&key.limit_key)
            .get_result(conn)?;
    Ok(found.number != 0)
}

/// The next jobs of a key with tenants, and whether another pass is needed. It is needed if there are more jobs, or if
/// paused jobs were removed from the order. It reads at most twice as many jobs as there are free permits, and few more
/// while something is paused.
pub(super) fn free_jobs(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<(Vec<JobId>, bool)> {
    let free = free(conn, key)?;
    if free <= 0 {
        return Ok((Vec::new(), false));
    }
    let turn = turn(conn, key)?;
    let beside = beside(conn, key, pauses)?;
    let tenants = next_tenants(conn, key, &turn, !beside.is_empty(), free)?;
    let number = i64::try_from(tenants.len()).unwrap_or(i64::MAX).max(1);
    let each = free / number + 1;
    let (mut front, mut goes_on, mut is_cut) = (Vec::new(), false, false);
    for (place, tenant) in tenants.iter().enumerate() {
        let jobs = if tenant.is_empty() {
            beside.clone()
        } else {
            let ahead = if pauses { each + MOST_AHEAD / number } else { each };
            goes_on |= pauses && set_paused_aside(conn, key, tenant, ahead)?;
            of_tenant(conn, key, tenant, each, pauses)?
        };
        is_cut |= i64::try_from(jobs.len()).is_ok_and(|jobs| jobs >= each);
        front.extend(jobs.into_iter().enumerate().map(|(round, job)| (round, place, job)));
    }
    front.sort_unstable();
    front.truncate(usize::try_from(free).unwrap_or(usize::MAX));
    if let Some(last) = front.last().and_then(|(_, place, _)| tenants.get(*place)) {
        take_turn(conn, key, last)?;
    }
    goes_on |= is_cut && i64::try_from(front.len()).is_ok_and(|jobs| jobs < free);
    Ok((front.into_iter().map(|(_, _, job)| job).collect(), goes_on))
}

/// The tenant whose job admission took last. Empty if there is none.
fn turn(conn: &mut SqliteConnection, key: &Key) -> QueryResult<String> {
    let turn: Option<Tenant> =
        sql_query("select after as tenant from jobs_fair_turn where limit_name = ?1 and limit_key = ?2")
            .bind::<Text, _>(&key.limit_name)
            .bind::<Text, _>(&key.limit_key)
            .get_result(conn)
            .optional()?;
    Ok(turn.map(|turn| turn.tenant).unwrap_or_default())
}

fn take_turn(conn: &mut SqliteConnection, key: &Key, tenant: &str) -> QueryResult<()> {
    sql_query(
        "insert into jobs_fair_turn (limit_name, limit_key, after) values (?1, ?2, ?3)
         on conflict (limit_name, limit_key) do update set after = excluded.after where after <> excluded.after",
    )
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<Text, _>(tenant)
    .execute(conn)
    .map(drop)
}

/// The jobs of the key without a tenant that are among the first ones. They are one tenant together.
fn beside(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<Vec<JobId>> {
    let not_paused = if pauses { format!("and not {PAUSED}") } else { String::new() };
    let ids: Vec<Number> = sql_query(format!(
        "select id as number from (select id, flags, rules, queue, kind, priority, due_at {IN_ORDER} limit {MOST_BESIDE})
         where (flags & 256 = 0 or coalesce(rules ->> '$[0].tenant', '') = '') {not_paused} order by priority desc, due_at, id"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .load(conn)?;
    Ok(ids.into_iter().map(|row| JobId(row.number)).collect())
}

/// The next tenants that have waiting jobs, in their turns: first those after the one that was served last, then the
/// others. Each is found by one probe.
fn next_tenants(
    conn: &mut SqliteConnection,
    key: &Key,
    turn: &str,
    with_empty: bool,
    most: i64,
) -> QueryResult<Vec<String>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut tenants: Vec<String> = Vec::new();
    let (mut after, mut is_around) = (turn.to_owned(), false);
    while tenants.len() < most {
        let next: Option<Tenant> = sql_query(format!(
            "select rules ->> '$[0].tenant' as tenant from {HELD} and limit_name = ?1 and limit_key = ?2 and rules ->> '$[0].tenant' > ?3
             order by limit_name, limit_key, rules ->> '$[0].tenant' limit 1"
        ))
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .bind::<Text, _>(&after)
        .get_result(conn)
        .optional()?;
        match next {
            Some(Tenant { tenant }) if !is_around || tenant.as_str() <= turn => {
                after.clone_from(&tenant);
                tenants.push(tenant);
            }
            None if !is_around => {
                is_around = true;
                after.clear();
                tenants.extend(with_empty.then(String::new));
            }
            _ => break,
        }
    }
    Ok(tenants)
}

/// How many other tenants wait for the key of a job with this rule. `None` if it has no tenant. Only reads.
pub(super) fn others(conn: &mut SqliteConnection, rule: &JobRule) -> QueryResult<Option<u32>> {
    let Some(own) = &rule.tenant else { return Ok(None) };
    let key = Key { limit_name: rule.name.clone(), limit_key: rule.key.clone() };
    let tenants = next_tenants(conn, &key, "", false, i64::from(MOST_TENANTS) + 2)?;
    Ok(u32::try_from(tenants.iter().filter(|tenant| *tenant != own).count()).ok())
}

/// The jobs of a tenant in the order of admission: the key is `?1`, `?2`, the tenant `?3`.
fn in_order() -> String {
    format!(
        "from {HELD} and limit_name = ?1 and limit_key = ?2 and rules ->> '$[0].tenant' = ?3 and state = 'available' order by priority desc, due_at, id"
    )
}

/// Takes paused jobs at the front of the tenant out of the order of admission. Returns whether there were some.
fn set_paused_aside(conn: &mut SqliteConnection, key: &Key, tenant: &str, most: i64) -> QueryResult<bool> {
    let aside = sql_query(format!(
        "update jobs_job set held_back = 2 where id in (
             select id from (select id, queue, kind {} limit ?4) where {PAUSED}
         )",
        in_order()
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<Text, _>(tenant)
    .bind::<BigInt, _>(most)
    .execute(conn)?;
    Ok(aside > 0)
}

/// The first jobs of the tenant. While something is paused, those that are paused are left out.
fn of_tenant(conn: &mut SqliteConnection, key: &Key, tenant: &str, most: i64, pauses: bool) -> QueryResult<Vec<JobId>> {
    let in_order = in_order();
    let ids: Vec<Number> = sql_query(match pauses {
        true => format!(
            "select id as number from (select id, queue, kind, priority, due_at {in_order} limit ?4)
             where not {PAUSED} order by priority desc, due_at, id"
        ),
        false => format!("select id as number {in_order} limit ?4"),
    })
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<Text, _>(tenant)
    .bind::<BigInt, _>(most)
    .load(conn)?;
    Ok(ids.into_iter().map(|row| JobId(row.number)).collect())
}

/// The turns of keys that have neither jobs with tenants nor permits.
fn old() -> String {
    format!(
        "select t.limit_name, t.limit_key from (select * from jobs_fair_turn limit {MOST_TURNS}) t
         where not exists (select 1 from jobs_permit s where s.limit_name = t.limit_name and s.limit_key = t.limit_key)
           and not exists (select 1 from {HELD} and jobs_job.limit_name = t.limit_name and jobs_job.limit_key = t.limit_key)"
    )
}

/// Whether there are turns that say nothing any more. Only reads.
pub(super) fn has_old(conn: &mut SqliteConnection) -> QueryResult<bool> {
    yes(conn, &format!("exists ({})", old()))
}

/// Deletes such turns.
pub(super) fn delete_old(conn: &mut SqliteConnection) -> QueryResult<()> {
    sql_query(format!("delete from jobs_fair_turn where (limit_name, limit_key) in ({})", old()))
        .execute(conn)
        .map(drop)
}
