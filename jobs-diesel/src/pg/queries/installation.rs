//! `installation`, `freeze`, `set_environment`: values that apply to the whole database. They are stored in at most one
//! row.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, now, update};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Bool, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{Freeze, Installation};

use crate::pg::schema::{installation, schedule};

#[derive(QueryableByName)]
#[diesel(table_name = installation)]
struct Row {
    environment: Option<String>,
    frozen_at: Option<DateTime<Utc>>,
    frozen_by: Option<String>,
    frozen_reason: Option<String>,
    #[diesel(sql_type = Bool)]
    standby: bool,
}

pub(crate) async fn installation(conn: &mut AsyncPgConnection) -> QueryResult<Installation> {
    let row: Row = sql_query(
        "select environment, frozen_at, frozen_by, frozen_reason, pg_is_in_recovery() as standby
         from (select) one left join jobs.installation on true",
    )
    .get_result(conn)
    .await?;
    let Row { environment, frozen_at, frozen_by: by, frozen_reason: reason, standby } = row;
    let freeze = |at| Freeze { at, by: by.unwrap_or_default(), reason: reason.unwrap_or_default() };
    Ok(Installation { environment, frozen: frozen_at.map(freeze), standby })
}

/// Freezes the database. Returns `false` if it was frozen already.
pub(crate) async fn freeze(conn: &mut AsyncPgConnection, by: &str, reason: &str) -> QueryResult<bool> {
    let frozen = (
        installation::frozen_at.eq(now.into_sql::<Timestamptz>().nullable()),
        installation::frozen_by.eq(by),
        installation::frozen_reason.eq(reason),
    );
    let not_frozen = installation::table.filter(installation::frozen_at.is_null());
    if update(not_frozen).set(frozen).execute(conn).await? == 1 {
        return Ok(true);
    }
    let first = insert_into(installation::table).values(frozen).on_conflict_do_nothing();
    Ok(first.execute(conn).await? == 1)
}

pub(crate) async fn set_environment(conn: &mut AsyncPgConnection, environment: Option<&str>) -> QueryResult<()> {
    let named = installation::environment.eq(environment);
    insert_into(installation::table)
        .values(named)
        .on_conflict(installation::only_row)
        .do_update()
        .set(named)
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn forget_missed_ticks(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    update(schedule::table).set(schedule::last_tick.eq(now)).execute(conn).await?;
    Ok(())
}
