//! `declare`, `schedules`: the schedules. A row that another session has locked is passed over. To wait for it would
//! delay all other schedules. Each declared schedule is stored in its own transaction, so that one that the database
//! refuses keeps no other from ticking.

use chrono::{DateTime, Utc};
use diesel::dsl::{exists, insert_into, not, now, select, update};
use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_jobs_core::storage::{Declarations, is_declared_so};
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduledJob, StoredSchedule};

use super::tick::OF_ROW;
use super::worker::ticking;
use crate::flags::ScheduleFlagsKnown;
use crate::pg::native::RawJson;
use crate::pg::patience::Patience;
use crate::pg::schema::{schedule, worker};

/// Those of the declared schedules that must be stored. A schedule that a live worker declares as it is stored stays.
pub(crate) async fn to_declare(
    conn: &mut AsyncPgConnection,
    declared: &[DeclaredSchedule],
) -> QueryResult<Vec<DeclaredSchedule>> {
    // A schedule with an unknown flag was declared by a later version, so this version does not change it.
    let newer = schedule::table.filter(not(ScheduleFlagsKnown("schedule"))).select(schedule::name);
    let newer: Vec<String> = newer.load(conn).await?;
    let stored: Vec<(String, Stored)> = schedule::table.select((schedule::name, STORED)).load(conn).await?;
    let mut live = None;
    let mut wanted = Vec::new();
    for one in declared.iter().filter(|one| !newer.contains(&one.name)) {
        let stored = stored.iter().find(|(name, _)| *name == one.name).map(|(_, stored)| stored);
        if let Some(stored) = stored {
            if live.is_none() && !stored.is_as(one)? {
                live = Some(declared_by_live_workers(conn).await?);
            }
            if stored.is_as(one)? || live.as_ref().is_some_and(|live| stored.is_kept(&one.name, live)) {
                continue;
            }
        }
        wanted.push(one.clone());
    }
    Ok(wanted)
}

/// Stores a declared schedule. Returns `false` if another session has locked its row. What an operator has added or
/// changed stays, and the declaration is stored beside it.
pub(crate) async fn declare(
    conn: &mut AsyncPgConnection,
    patience: &Patience,
    one: &DeclaredSchedule,
) -> QueryResult<bool> {
    // Copies, because an async closure that is `Send` cannot yet borrow anything besides the connection.
    let (one, limit) = (one.clone(), patience.limit());
    conn.transaction(async move |conn| {
        conn.batch_execute(limit).await?;
        let row = schedule::table.find(&one.name);
        let free = || row.select(STORED).for_no_key_update().skip_locked();
        let mut stored = free().first::<Stored>(conn).await.optional()?;
        // The insert would wait for a transaction that has changed or deleted the row.
        if stored.is_none() && select(exists(row)).get_result(conn).await? {
            return Ok(false);
        }
        let new = (
            schedule::name.eq(&one.name),
            schedule::kind.eq(&one.name),
            schedule::expression.eq(&one.expression),
            schedule::timezone.eq(&one.timezone),
            schedule::catch_up.eq(one.catch_up.as_str()),
        );
        if stored.is_none() {
            if insert_into(schedule::table).values(new).on_conflict_do_nothing().execute(conn).await? > 0 {
                return Ok(true);
            }
            stored = free().first::<Stored>(conn).await.optional()?;
        }
        let Some(stored) = stored else { return Ok(false) };
        // An operator or another worker may have changed it since it was read.
        if stored.is_as(&one)? || stored.is_kept(&one.name, &declared_by_live_workers(conn).await?) {
            return Ok(true);
        }
        if stored.is_operators() {
            update(row).set(schedule::declared.eq(RawJson(text(&one)?))).execute(conn).await?;
            return Ok(true);
        }
        let is_moved = (&stored.expression, &stored.timezone) != (&one.expression, &one.timezone);
        update(row)
            .set((
                schedule::expression.eq(&one.expression),
                schedule::timezone.eq(&one.timezone),
                schedule::catch_up.eq(one.catch_up.as_str()),
                // A changed expression starts now, so that its earlier ticks are not missed ticks.
                is_moved.then(|| schedule::last_tick.eq(now)),
            ))
            .execute(conn)
            .await?;
        Ok(true)
    })
    .await
    .map_err(|error| patience.explained(error, OF_ROW))
}

/// A schedule as it is stored, and who has set it.
#[derive(Queryable)]
struct Stored {
    expression: String,
    timezone: String,
    catch_up: String,
    added_by: Option<String>,
    changed_by: Option<String>,
    declared: Option<RawJson>,
}

type StoredColumns = (
    schedule::expression,
    schedule::timezone,
    schedule::catch_up,
    schedule::added_by,
    schedule::changed_by,
    schedule::declared,
);
const STORED: StoredColumns = (
    schedule::expression,
    schedule::timezone,
    schedule::catch_up,
    schedule::added_by,
    schedule::changed_by,
    schedule::declared,
);

impl Stored {
    fn is_operators(&self) -> bool {
        self.added_by.is_some() || self.changed_by.is_some()
    }

    /// Whether the code's declaration is stored, in place of what an operator has set or beside it.
    fn is_as(&self, one: &DeclaredSchedule) -> QueryResult<bool> {
        if self.is_operators() {
            let text = text(one)?;
            return Ok(self.declared.as_ref().is_some_and(|declared| declared.0 == text));
        }
        Ok(one.ticks_like(&self.expression, &self.timezone, &self.catch_up))
    }

    /// Whether a live worker declares it as it is stored.
    fn is_kept(&self, name: &str, live: &[Declarations]) -> bool {
        let stored = (&*self.expression, &*self.timezone, &*self.catch_up);
        !self.is_operators() && is_declared_so(live, name, stored)
    }
}

fn text(declared: &DeclaredSchedule) -> QueryResult<Vec<u8>> {
    serde_json::to_vec(declared).map_err(|error| Error::SerializationError(error.into()))
}

async fn declared_by_live_workers(conn: &mut AsyncPgConnection) -> QueryResult<Vec<Declarations>> {
    let declared: Vec<Option<RawJson>> = ticking().select(worker::schedules).load(conn).await?;
    Ok(declared.into_iter().flatten().filter_map(|RawJson(text)| serde_json::from_slice(&text).ok()).collect())
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
    let at: DateTime<Utc> = select(now.into_sql::<diesel::sql_types::Timestamptz>()).get_result(conn).await?;
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
