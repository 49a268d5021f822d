//! Jobs with several rules. They wait in lanes: jobs with the same rules and keys have the same lane, whose name is
//! empty. Only the first job of a lane is compared with its rules. If one of them is full, the job waits there, which
//! its column `waits_at` says. It starts only if all its rules allow it, and then takes everything at once. Only a
//! sequence keeps its permit meanwhile: its next job must not overtake this one.

use std::collections::BTreeSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_jobs_core::flags::{RATE, SEQUENCE, SEVERAL};
use diesel_jobs_core::{JobId, JobRule, Rules};

use crate::sqlite::queries::admission::{Pass, nudge, set_paused_aside, start_all};
use crate::sqlite::queries::keys::{IN_ORDER, Key, Number, first_jobs, taken_permits};
use crate::sqlite::queries::lanes::{free_of_lane, waits_at_limit};
use crate::sqlite::queries::{limit_setting, rate};
use crate::sqlite::time::{FAR, NOW};

/// Takes the jobs with several rules out of these.
pub(super) fn take_out(conn: &mut SqliteConnection, ids: &mut Vec<JobId>) -> QueryResult<Vec<JobId>> {
    let list = serde_json::to_string(&ids.iter().map(|id| id.0).collect::<Vec<_>>()).unwrap_or_default();
    let found: Vec<Number> = sql_query(format!(
        "select id as number from jobs_job where id in (select value from json_each(?1)) and flags & {SEVERAL}"
    ))
    .bind::<Text, _>(list)
    .load(conn)?;
    let found: BTreeSet<i64> = found.into_iter().map(|row| row.number).collect();
    let (several, others) = ids.iter().partition(|id| found.contains(&id.0));
    *ids = others;
    Ok(several)
}

#[derive(QueryableByName)]
struct JobRow {
    #[diesel(sql_type = Integer)]
    flags: i32,
    #[diesel(sql_type = Text)]
    rules: String,
    #[diesel(sql_type = Text)]
    lane: String,
}

/// Reads the flags, the lane and the rules of a job. `None` if the rules cannot be read: the job waits, and must not
/// stop the others.
fn rules_of(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Option<(i32, String, Rules)>> {
    let row: JobRow = sql_query("select flags, rules, coalesce(lane, '') as lane from jobs_job where id = ?1")
        .bind::<BigInt, _>(id.0)
        .get_result(conn)?;
    Ok(Rules::read(row.rules.as_bytes()).ok().map(|rules| (row.flags, row.lane, rules)))
}

/// The jobs of a key that is free, of those with several rules. Each starts, or waits where it cannot start. Adds their
/// lanes to the pass.
pub(super) fn admit(conn: &mut SqliteConnection, pass: &mut Pass, key: &Key, ids: &[JobId]) -> QueryResult<()> {
    for &id in ids {
        let Some((flags, lane, rules)) = rules_of(conn, id)? else { continue };
        pass.lanes.insert(lane.clone());
        if flags & SEQUENCE != 0 {
            take_turn(conn, key, id, &lane)?;
            continue;
        }
        if flags & RATE != 0 {
            // It was spent when the job was found.
            spend_at(conn, &rules, &key.limit_name, -1)?;
        }
        match full_rule(conn, &rules)? {
            None => pass.count(start_all(conn, &[id], |conn, id| start(conn, id, &rules))?),
            Some(full) if full.name == key.limit_name && !full.rule.is_rate() => {}
            Some(full) => {
                wait_at_rule(conn, id, full)?;
                // The jobs behind it.
                nudge(conn, key)?;
                pass.more = true;
            }
        }
    }
    Ok(())
}

/// Starts as many jobs of a lane as all their rules allow. The next one then waits at a rule that allows none.
pub(super) fn free_in_lane(conn: &mut SqliteConnection, pass: &mut Pass, key: &Key, pauses: bool) -> QueryResult<()> {
    if waits_at_limit(conn, &key.limit_key)? {
        return Ok(());
    }
    if pauses && set_paused_aside(conn, key, IN_ORDER)? {
        // The next pass examines the jobs behind them.
        nudge(conn, key)?;
        pass.more = true;
    }
    while let Some(first) = first_jobs(conn, key, IN_ORDER, 1, pauses)?.first().copied() {
        let Some((_, _, rules)) = rules_of(conn, first)? else { break };
        let mut number = i64::MAX;
        for rule in rules.beside_sequence() {
            number = number.min(free_of(conn, rule)?);
        }
        if number <= 0 {
            if let Some(full) = full_rule(conn, &rules)? {
                pass.more |= full.rule.is_rate();
                wait_at_rule(conn, first, full)?;
            }
            break;
        }
        let ids = first_jobs(conn, key, IN_ORDER, number, pauses)?;
        let started = start_all(conn, &ids, |conn, id| start(conn, id, &rules))?;
        pass.count(started);
        if started.discarded + started.put_off > 0 {
            // The next pass examines the jobs behind them.
            nudge(conn, key)?;
            pass.more = true;
            break;
        }
    }
    Ok(())
}

/// The first of these rules that allows no job to start.
fn full_rule<'a>(conn: &mut SqliteConnection, rules: &'a Rules) -> QueryResult<Option<&'a JobRule>> {
    for rule in rules.beside_sequence() {
        if free_of(conn, rule)? <= 0 {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

/// How many jobs this rule allows to start now.
fn free_of(conn: &mut SqliteConnection, rule: &JobRule) -> QueryResult<i64> {
    let Some(most) = rule.rule.most() else { return rate::tokens(conn, rule) };
    let most = limit_setting::one(conn, &rule.name)?.map_or(most, |set| set.most);
    Ok(i64::from(most) - taken_permits(conn, &rule.name, &rule.key)?)
}

/// The turn of a job of a sequence has come: it keeps its turn, and waits for its other rules.
fn take_turn(conn: &mut SqliteConnection, key: &Key, id: JobId, lane: &str) -> QueryResult<()> {
    sql_query(
        "insert into jobs_permit (job_id, limit_name, limit_key) values (?1, ?2, ?3) on conflict (job_id, limit_name) do update set halted_at = null",
    )
    .bind::<BigInt, _>(id.0)
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .execute(conn)?;
    wait_at(conn, id, &serde_json::json!({"name": "", "key": lane}).to_string(), 0)
}

/// Lets a job wait at this rule. A transaction that frees a permit there nudges the key. The next pass computes the
/// time of the next token.
fn wait_at_rule(conn: &mut SqliteConnection, id: JobId, rule: &JobRule) -> QueryResult<()> {
    let at = serde_json::to_string(rule).map_err(|error| Error::SerializationError(error.into()))?;
    wait_at(conn, id, &at, if rule.rule.is_rate() { RATE } else { 0 })?;
    if rule.rule.is_rate() {
        nudge(conn, &Key { limit_name: rule.name.clone(), limit_key: rule.key.clone() })?;
    }
    Ok(())
}

/// Lets a job wait at a rule or in a lane, whose JSON is `at`.
fn wait_at(conn: &mut SqliteConnection, id: JobId, at: &str, flag: i32) -> QueryResult<()> {
    sql_query(format!("update jobs_job set waits_at = ?2, flags = flags & ~{} | {flag} where id = ?1", SEQUENCE | RATE))
        .bind::<BigInt, _>(id.0)
        .bind::<Text, _>(at)
        .execute(conn)
        .map(drop)
}

fn start(conn: &mut SqliteConnection, id: JobId, rules: &Rules) -> QueryResult<()> {
    sql_query(format!(
        "update jobs_job set {}, run_at = {NOW}, due_at = null where id = ?1 and run_at = {FAR}",
        free_of_lane()
    ))
    .bind::<BigInt, _>(id.0)
    .execute(conn)?;
    for rule in rules.beside_sequence() {
        if rule.rule.is_rate() {
            rate::spend(conn, rule, 1)?;
            continue;
        }
        sql_query("insert or ignore into jobs_permit (job_id, limit_name, limit_key) values (?1, ?2, ?3)")
            .bind::<BigInt, _>(id.0)
            .bind::<Text, _>(&rule.name)
            .bind::<Text, _>(&rule.key)
            .execute(conn)?;
    }
    Ok(())
}

/// Spends tokens of the rate with this name.
fn spend_at(conn: &mut SqliteConnection, rules: &Rules, name: &str, number: i64) -> QueryResult<()> {
    match rules.iter().find(|rule| rule.name == name) {
        Some(rule) => rate::spend(conn, rule, number),
        None => Ok(()),
    }
}
