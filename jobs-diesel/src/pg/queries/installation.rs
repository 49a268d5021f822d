//! `installation`, `freeze`, `set_environment`: values that apply to the whole database. They are stored in at most one
//! row. Each change adds a row to the audit, in the same transaction.

use chrono::{DateTime, Utc};
use diesel::dsl::{insert_into, now, sql, update};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Bool, Timestamptz};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{Freeze, Installation};
use serde_json::json;

use super::audit::record;
use crate::error::storage_error;
use crate::pg::connect::Connector;
use crate::pg::schema::{installation, schedule};
use crate::pg::{STATEMENT_LIMIT, no_answer};

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
    // Workers' sessions may write even if the role or the database has `default_transaction_read_only`
    // (`pg/settings.rs`). An operator who sets this does not want that a dashboard changes the database. So the stored
    // setting is read. The setting of the role in this database takes precedence over those of the role and of the
    // database.
    let row: Row = sql_query(
        "select environment, frozen_at, frozen_by, frozen_reason, pg_is_in_recovery() as standby,
                current_setting('transaction_read_only') = 'on' or coalesce((
                    select lower(split_part(setting, '=', 2)) in ('on', 'true', 'yes', '1')
                    from pg_db_role_setting s, unnest(s.setconfig) setting
                    where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
                      and s.setrole in (0, (select oid from pg_roles where rolname = session_user))
                      and setting like E'default\\\\_transaction\\\\_read\\\\_only=%'
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

/// Whether the transactions of a session are read-only if it has only the settings of the server, the database, the
/// role and the URL. Opens such a session, because only this session has the answer. What a standby adds to that
/// does not count.
pub(crate) async fn is_read_only_by_default(connector: &Connector) -> StorageResult<bool> {
    let mut conn = connector.connect_to_listen().await?;
    let asked =
        diesel::select(sql::<Bool>("current_setting('transaction_read_only') = 'on' and not pg_is_in_recovery()"))
            .get_result(&mut conn);
    match tokio::time::timeout(connector.stopwatch().limit(STATEMENT_LIMIT), asked).await {
        Ok(answer) => answer.map_err(storage_error),
        Err(_) => Err(no_answer("asking whether transactions are read-only")),
    }
}

/// What the audit says was changed.
const TARGET: &str = "the database";

/// Freezes the database. Returns `false` if it was frozen already.
pub(crate) async fn freeze(conn: &mut AsyncPgConnection, by: &str, reason: &str) -> QueryResult<bool> {
    let (by, reason) = (by.to_owned(), reason.to_owned());
    conn.transaction(async move |conn| {
        let frozen = (
            installation::frozen_at.eq(now.into_sql::<Timestamptz>().nullable()),
            installation::frozen_by.eq(by.as_str()),
            installation::frozen_reason.eq(reason.as_str()),
        );
        let not_frozen = installation::table.filter(installation::frozen_at.is_null());
        let mut rows = update(not_frozen).set(frozen).execute(conn).await?;
        if rows == 0 {
            // There may be no row yet.
            rows = insert_into(installation::table).values(frozen).on_conflict_do_nothing().execute(conn).await?;
        }
        if rows == 0 {
            return Ok(false);
        }
        record(conn, &by, "freeze", TARGET, Some(&json!({ "reason": reason }))).await?;
        Ok(true)
    })
    .await
}

/// Returns `false` if this was the name already.
pub(crate) async fn set_environment(
    conn: &mut AsyncPgConnection,
    environment: Option<&str>,
    actor: &str,
) -> QueryResult<bool> {
    let (environment, actor) = (environment.map(str::to_owned), actor.to_owned());
    conn.transaction(async move |conn| {
        let nameless = installation::environment.eq(None::<&str>);
        insert_into(installation::table).values(nameless).on_conflict_do_nothing().execute(conn).await?;
        let stored = installation::table.select(installation::environment);
        let before: Option<String> = stored.for_no_key_update().first(conn).await?;
        if before == environment {
            return Ok(false);
        }
        update(installation::table).set(installation::environment.eq(&environment)).execute(conn).await?;
        let detail = json!({ "environment": environment, "before": before });
        record(conn, &actor, "set_environment", TARGET, Some(&detail)).await?;
        Ok(true)
    })
    .await
}

pub(crate) async fn forget_missed_ticks(conn: &mut AsyncPgConnection, actor: &str) -> QueryResult<()> {
    let actor = actor.to_owned();
    conn.transaction(async move |conn| {
        update(schedule::table).set(schedule::last_tick.eq(now)).execute(conn).await?;
        record(conn, &actor, "forget_missed_ticks", "all schedules", None).await
    })
    .await
}
