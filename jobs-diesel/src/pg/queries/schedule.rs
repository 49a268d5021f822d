//! `declare`, `schedules`: the schedules. A row that another session has locked is passed over. To wait for it would
//! delay all other schedules.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, not, now, update};
use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{DeclaredSchedule, StoredSchedule};

use crate::flags::FlagsKnown;
use crate::pg::schema::schedule;

/// Stores the declared schedules. Returns whether each of them is stored as declared. A schedule that must be changed
/// is passed over if another session has locked its row. A schedule that is already stored as declared is only read.
pub(crate) async fn declare(conn: &mut AsyncPgConnection, declared: &[DeclaredSchedule]) -> QueryResult<bool> {
    // A copy, because an async closure that is `Send` cannot yet borrow anything besides the connection.
    let declared = declared.to_vec();
    conn.transaction(async move |conn| {
        // A schedule with an unknown flag was declared by a later version, so this version does not change it.
        let newer = schedule::table.filter(not(FlagsKnown("schedule"))).select(schedule::name);
        let newer: Vec<String> = newer.load(conn).await?;
        let columns = (schedule::name, schedule::expression, schedule::timezone, schedule::catch_up);
        let stored: Vec<(String, String, String, String)> = schedule::table.select(columns).load(conn).await?;
        let mut all_stored = true;
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
                all_stored = false;
                continue;
            }
            if !is_as_stored {
                // A changed expression starts now, so that its earlier ticks are not missed ticks.
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
        Ok(all_stored)
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
            // The check of the table allows only words that can be parsed.
            catch_up: catch_up.parse().unwrap_or_default(),
            last_tick,
            paused,
        })
        .collect();
    Ok((schedules, at))
}
