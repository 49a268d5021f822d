//! `declare`, `schedules`: what runs by the clock. A row that another session has locked is passed over: to wait for it would hold up
//! all other schedules.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, not, now, update};
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{DeclaredSchedule, StoredSchedule};

use crate::flags::FlagsKnown;
use crate::pg::schema::schedule;

/// Whether each of these is stored as it is declared. One that is not, and whose row somebody has locked, is passed over. What is
/// stored already is only read.
pub(crate) async fn declare(conn: &mut AsyncPgConnection, declared: &[DeclaredSchedule]) -> QueryResult<bool> {
    // Owned, because an async closure cannot yet borrow beside the connection and stay `Send`.
    let declared = declared.to_vec();
    conn.transaction(async move |conn| {
        // What a later version declares about a schedule is not this one's to change.
        let newer = schedule::table.filter(not(FlagsKnown("schedule"))).select(schedule::name);
        let newer: Vec<String> = newer.load(conn).await?;
        let says = (schedule::name, schedule::expression, schedule::timezone, schedule::catch_up);
        let stored: Vec<(String, String, String, String)> = schedule::table.select(says).load(conn).await?;
        let mut all = true;
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
            let is_as_stored = (expression, timezone) == (&one.expression, &one.timezone);
            if is_as_stored && stored == catch_up {
                continue;
            }
            let row = schedule::table.find(&one.name);
            let free = row.select(schedule::name).for_no_key_update().skip_locked();
            if free.first::<String>(conn).await.optional()?.is_none() {
                all = false;
                continue;
            }
            if !is_as_stored {
                // A changed expression starts now: its ticks of the past were never promised.
                update(row).set(schedule::last_tick.eq(now)).execute(conn).await?;
            }
            update(row)
                .set((
                    schedule::expression.eq(&one.expression),
                    schedule::timezone.eq(&one.timezone),
                    schedule::catch_up.eq(catch_up),
                ))
                .execute(conn)
                .await?;
        }
        Ok(all)
    })
    .await
}

type Row = (String, String, String, String, String, DateTime<Utc>, bool);

pub(crate) async fn schedules(conn: &mut AsyncPgConnection) -> QueryResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
    let rows: Vec<Row> = schedule::table
        .filter(FlagsKnown("schedule"))
        .order(schedule::name)
        .select((
            schedule::name,
            schedule::kind,
            schedule::expression,
            schedule::timezone,
            schedule::catch_up,
            schedule::last_tick,
            schedule::paused,
        ))
        .load(conn)
        .await?;
    let at: DateTime<Utc> = diesel::select(now.into_sql::<diesel::sql_types::Timestamptz>()).get_result(conn).await?;
    let schedules = rows
        .into_iter()
        .map(|(name, kind, expression, timezone, catch_up, last_tick, paused)| StoredSchedule {
            name,
            kind,
            expression,
            timezone,
            // The table's check admits no other word.
            catch_up: catch_up.parse().unwrap_or_default(),
            last_tick,
            paused,
        })
        .collect();
    Ok((schedules, at))
}
