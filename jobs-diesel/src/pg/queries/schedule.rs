//! `declare`, `schedules`: the schedules. A row that another session has locked is passed over. To wait for it would
//! delay all other schedules.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, not, now, sql, update};
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::Bool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Declarations, is_declared_so};
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduledJob, StoredSchedule};

use crate::flags::ScheduleFlagsKnown;
use crate::pg::native::RawJson;
use crate::pg::schema::{schedule, worker};

/// Stores the declared schedules, except those that a live worker declares as they are stored. A schedule that must be
/// changed is passed over if another session has locked its row; then this returns `false`. A schedule that is already
/// stored as declared is only read.
pub(crate) async fn declare(conn: &mut AsyncPgConnection, declared: &[DeclaredSchedule]) -> QueryResult<bool> {
    // A copy, because an async closure that is `Send` cannot yet borrow anything besides the connection.
    let declared = declared.to_vec();
    conn.transaction(async move |conn| {
        // A schedule with an unknown flag was declared by a later version, so this version does not change it.
        let newer = schedule::table.filter(not(ScheduleFlagsKnown("schedule"))).select(schedule::name);
        let newer: Vec<String> = newer.load(conn).await?;
        let columns = (schedule::name, schedule::expression, schedule::timezone, schedule::catch_up);
        let stored: Vec<(String, String, String, String)> = schedule::table.select(columns).load(conn).await?;
        // What operators have added or changed, and what the code declared for it.
        let operators = schedule::table.filter(schedule::added_by.is_not_null().or(schedule::changed_by.is_not_null()));
        let operators: Vec<(String, Option<RawJson>)> =
            operators.select((schedule::name, schedule::declared)).load(conn).await?;
        let mut all_stored = true;
        let mut live = None;
        for one in declared.iter().filter(|one| !newer.contains(&one.name)) {
            let catch_up = one.catch_up.as_str();
            let Some((_, expression, timezone, stored)) = stored.iter().find(|(name, ..)| *name == one.name) else {
                let row = (
                    schedule::name.eq(&one.name),
                    schedule::kind.eq(&one.name),
                    schedule::expression.eq(&one.expression),
                    schedule::timezone.eq(&one.timezone),
                    schedule::catch_up.eq(catch_up),
                );
                insert_into(schedule::table).values(row).on_conflict_do_nothing().execute(conn).await?;
                continue;
            };
            if let Some((_, known)) = operators.iter().find(|(name, _)| *name == one.name) {
                all_stored &= declare_beside(conn, one, known.as_ref()).await?;
                continue;
            }
            let is_as_stored = (expression, timezone) == (&one.expression, &one.timezone);
            if is_as_stored && stored == catch_up {
                continue;
            }
            if live.is_none() {
                live = Some(declared_by_live_workers(conn).await?);
            }
            if is_declared_so(live.iter().flatten(), &one.name, (expression, timezone, stored)) {
                continue;
            }
            if !lock(conn, &one.name).await? {
                all_stored = false;
                continue;
            }
            // Unless an operator or another worker has changed it since it was read.
            let unchanged = schedule::table
                .find(&one.name)
                .filter(schedule::added_by.is_null().and(schedule::changed_by.is_null()))
                .filter(schedule::expression.eq(expression).and(schedule::timezone.eq(timezone)))
                .filter(schedule::catch_up.eq(stored));
            update(unchanged)
                .set((
                    schedule::expression.eq(&one.expression),
                    schedule::timezone.eq(&one.timezone),
                    schedule::catch_up.eq(catch_up),
                    // A changed expression starts now, so that its earlier ticks are not missed ticks.
                    (!is_as_stored).then(|| schedule::last_tick.eq(now)),
                ))
                .execute(conn)
                .await?;
        }
        Ok(all_stored)
    })
    .await
}

/// What the live workers declare. Those that drain do not tick any more.
async fn declared_by_live_workers(conn: &mut AsyncPgConnection) -> QueryResult<Vec<Declarations>> {
    let live = worker::table.filter(sql::<Bool>("heartbeat_at >= now() - lease")).filter(worker::draining_at.is_null());
    let declared: Vec<Option<RawJson>> = live.select(worker::schedules).load(conn).await?;
    Ok(declared.into_iter().flatten().filter_map(|RawJson(text)| serde_json::from_slice(&text).ok()).collect())
}

/// Stores what the code declares beside what an operator has added or changed. Returns `false` if another session has
/// locked the row.
async fn declare_beside(
    conn: &mut AsyncPgConnection,
    declared: &DeclaredSchedule,
    known: Option<&RawJson>,
) -> QueryResult<bool> {
    let text = serde_json::to_vec(declared).map_err(|error| Error::SerializationError(error.into()))?;
    if known.is_some_and(|known| known.0 == text) {
        return Ok(true);
    }
    if !lock(conn, &declared.name).await? {
        return Ok(false);
    }
    let row = schedule::table.find(&declared.name);
    update(row).set(schedule::declared.eq(RawJson(text))).execute(conn).await?;
    Ok(true)
}

/// Locks the row. Returns `false` if another session has locked it.
async fn lock(conn: &mut AsyncPgConnection, name: &str) -> QueryResult<bool> {
    let free = schedule::table.find(name).select(schedule::name).for_no_key_update().skip_locked();
    Ok(free.first::<String>(conn).await.optional()?.is_some())
}

type JobRow = (Option<RawJson>, Option<String>, Option<i16>, Option<i16>);
type OperatorsRow = (Option<String>, Option<String>);
type Row = (String, String, String, String, String, DateTime<Utc>, bool, OperatorsRow, JobRow);

/// What the jobs of a schedule get.
pub(super) fn job((args, queue, priority, max_attempts): JobRow) -> ScheduledJob {
    ScheduledJob {
        args: args.map(|RawJson(text)| String::from_utf8_lossy(&text).into_owned()),
        queue,
        priority,
        // The type of the column allows numbers from 1.
        max_attempts: max_attempts.map(|most| u16::try_from(most).unwrap_or(1)),
    }
}

pub(crate) async fn schedules(conn: &mut AsyncPgConnection) -> QueryResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
    let rows: Vec<Row> = schedule::table
        .filter(ScheduleFlagsKnown("schedule"))
        .order(schedule::name)
        .select((
            schedule::name,
            schedule::kind,
            schedule::expression,
            schedule::timezone,
            schedule::catch_up,
            schedule::last_tick,
            schedule::paused,
            (schedule::added_by, schedule::changed_by),
            (schedule::args, schedule::queue, schedule::priority, schedule::max_attempts),
        ))
        .load(conn)
        .await?;
    let at: DateTime<Utc> = diesel::select(now.into_sql::<diesel::sql_types::Timestamptz>()).get_result(conn).await?;
    let schedules = rows
        .into_iter()
        .map(|(name, kind, expression, timezone, catch_up, last_tick, paused, (added_by, changed_by), job_row)| {
            StoredSchedule {
                name,
                kind,
                expression,
                timezone,
                // The check of the table allows only words that can be parsed.
                catch_up: catch_up.parse().unwrap_or_default(),
                last_tick,
                paused,
                is_added: added_by.is_some(),
                is_changed: changed_by.is_some(),
                job: job(job_row),
            }
        })
        .collect();
    Ok((schedules, at))
}
