//! `installation`, `freeze`, `set_environment`: values that apply to the whole database. They are stored in at most one
//! row.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, now, sql, update};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Bool, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{Freeze, Installation, StorageError};

use crate::error::storage_error;
use crate::pg::STATEMENT_LIMIT;
use crate::pg::connect::Connector;
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
    #[diesel(sql_type = Bool)]
    read_only: bool,
}

pub(crate) async fn installation(conn: &mut AsyncPgConnection) -> QueryResult<Installation> {
    // Workers' sessions may write although the role or the database says otherwise (`pg/settings.rs`). People who set this do not
    // want their changes from a dashboard, so the stored setting is read. The one of the role in this database is the strongest.
    let row: Row = sql_query(
        "select environment, frozen_at, frozen_by, frozen_reason, pg_is_in_recovery() as standby,
                current_setting('transaction_read_only') = 'on' or coalesce((
                    select lower(split_part(setting, '=', 2)) in ('on', 'true', 'yes', '1')
                    from pg_db_role_setting s, unnest(s.setconfig) setting
                    where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
                      and s.setrole in (0, (select oid from pg_roles where rolname = session_user))
                      and setting like 'default\\_transaction\\_read\\_only=%'
                    order by (s.setrole <> 0)::int * 2 + (s.setdatabase <> 0)::int desc limit 1
                ), false) as read_only
         from (select) one left join jobs.installation on true",
    )
    .get_result(conn)
    .await?;
    let Row { environment, frozen_at, frozen_by: by, frozen_reason: reason, standby, read_only } = row;
    let freeze = |at| Freeze { at, by: by.unwrap_or_default(), reason: reason.unwrap_or_default() };
    Ok(Installation { environment, frozen: frozen_at.map(freeze), standby, read_only })
}

/// Whether the transactions of a session are read-only if it has only the settings of the server, the database, the role and the URL.
/// Only such a session can tell, so this opens one.
pub(crate) async fn is_read_only_by_default(connector: &Connector) -> StorageResult<bool> {
    let unavailable = |error: ConnectionError| StorageError::Unavailable(Box::new(error));
    let mut conn = connector.connect_to_listen().await.map_err(unavailable)?;
    let asked = diesel::select(sql::<Bool>("current_setting('transaction_read_only') = 'on'")).get_result(&mut conn);
    match tokio::time::timeout(STATEMENT_LIMIT, asked).await {
        Ok(answer) => answer.map_err(storage_error),
        Err(elapsed) => Err(StorageError::Unavailable(Box::new(elapsed))),
    }
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
