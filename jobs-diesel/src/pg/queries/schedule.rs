//! `declare`, `schedules`, `tick`: what runs by the clock. The guarded update of `last_tick` elects the one worker
//! that enqueues a tick; there is no leader.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, not, now, sql, update};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel::upsert::excluded;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use jobs_core::NewJob;
use jobs_core::storage::{DeclaredSchedule, StoredSchedule};

use super::super::executor::insert_many;
use super::scan::NOT_FROZEN;
use crate::flags::FlagsKnown;
use crate::pg::schema::schedule;

pub(crate) async fn declare(conn: &mut AsyncPgConnection, declared: &[DeclaredSchedule]) -> QueryResult<()> {
    // Owned, because an async closure cannot yet borrow beside the connection and stay `Send`.
    let declared = declared.to_vec();
    conn.transaction(async move |conn| {
        // What a later version declares about a schedule is not this one's to change.
        let newer = schedule::table.filter(not(FlagsKnown("schedule"))).select(schedule::name);
        let newer: Vec<String> = newer.load(conn).await?;
        for one in declared.iter().filter(|one| !newer.contains(&one.name)) {
            let row = (
                schedule::name.eq(&one.name),
                schedule::kind.eq(&one.name),
                schedule::expression.eq(&one.expression),
                schedule::timezone.eq(&one.timezone),
                schedule::catch_up.eq(one.catch_up.as_str()),
            );
            // A changed expression starts now: its ticks of the past were never promised.
            update(schedule::table.find(&one.name))
                .filter(schedule::expression.ne(&one.expression).or(schedule::timezone.ne(&one.timezone)))
                .set(schedule::last_tick.eq(now))
                .execute(conn)
                .await?;
            insert_into(schedule::table)
                .values(row)
                .on_conflict(schedule::name)
                .do_update()
                .set((
                    schedule::expression.eq(excluded(schedule::expression)),
                    schedule::timezone.eq(excluded(schedule::timezone)),
                    schedule::catch_up.eq(excluded(schedule::catch_up)),
                ))
                .execute(conn)
                .await?;
        }
        Ok(())
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

pub(crate) async fn tick(
    conn: &mut AsyncPgConnection,
    stored: &StoredSchedule,
    last_tick: DateTime<Utc>,
    jobs: &[NewJob],
) -> QueryResult<bool> {
    let (stored, jobs) = (stored.clone(), jobs.to_vec());
    conn.transaction(async move |conn| {
        let guard = schedule::table.find(&stored.name).filter(schedule::last_tick.eq(stored.last_tick));
        let guard = guard.filter(schedule::paused.eq(false)).filter(sql::<Bool>(NOT_FROZEN));
        let won =
            update(guard.filter(FlagsKnown("schedule"))).set(schedule::last_tick.eq(last_tick)).execute(conn).await?;
        if won == 1 {
            insert_many::<AsyncPgConnection>(conn, jobs).await?;
        }
        Ok(won == 1)
    })
    .await
}
