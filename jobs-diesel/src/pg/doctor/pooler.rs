//! What stands between this program and the server: a pooler in transaction mode, or a proxy that swallows
//! notifications.

use std::time::Duration;

use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::Finding;
use futures_util::StreamExt as _;

use super::Problem;
use crate::pg::PgStorage;
use crate::pg::queries::session;

/// The check of what is between this program and the server.
pub(super) const POOLER: &str = "pooler";
/// How long a notification may take.
const NOTIFICATION: Duration = Duration::from_secs(3);

diesel::define_sql_function! {
    /// Sends a notification.
    fn pg_notify(channel: Text, payload: Text);
}

pub(super) fn no_prepared_statements(problem: impl std::fmt::Display) -> Finding {
    Finding::error(
        POOLER,
        format!(
            "the connection goes through a pooler in transaction mode without prepared statements, so statements fail: {problem}"
        ),
        "connect to the server itself, set pool_mode = session, or let the pooler support prepared statements: PgBouncer does so from version \
         1.21 on with max_prepared_statements = 200",
    )
}

/// Fails if a pooler mixes up prepared statements. What any statement answers then may be the answer to another one.
pub(super) async fn keeps_statements(storage: &PgStorage, one: &mut AsyncPgConnection) -> Result<(), Problem> {
    let mut other = storage.own_connector.connect_to_listen().await?;
    if session::are_shared(one, &mut other).await? {
        session::keep_statements(one, &mut other, storage.stopwatch().limit(NOTIFICATION)).await?;
    }
    Ok(())
}

/// Sends a notification through the server and waits for it.
pub(super) async fn listens(storage: &PgStorage, sender: &mut AsyncPgConnection) -> Result<Option<Finding>, Problem> {
    let mut listener = storage.own_connector.connect_to_listen().await?;
    if session::are_shared(&mut listener, sender).await? {
        return Ok(Some(Finding::warning(
            POOLER,
            "the connection goes through a pooler in transaction mode, on which LISTEN does not work: workers without work find new jobs \
             at their next poll",
            "connect to the server itself, or set pool_mode = session",
        )));
    }
    // The name is always the same, so that `pg_stat_statements` has one entry for all. Others may examine at this time.
    diesel::sql_query("listen jobs_doctor").execute(&mut listener).await?;
    let payload = format!("{:016x}", rand::random::<u64>());
    diesel::select(pg_notify("jobs_doctor", &payload)).execute(sender).await?;
    let ours = listener.notifications_stream().any(async |said| said.is_ok_and(|said| said.payload == payload));
    let received = tokio::time::timeout(storage.stopwatch().limit(NOTIFICATION), ours).await;
    Ok(match received {
        Ok(true) => None,
        _ => Some(Finding::warning(
            "listen",
            format!(
                "a notification did not arrive within {NOTIFICATION:?}: workers without work find new jobs at their next poll"
            ),
            "connect to the server itself, without a pooler or proxy between",
        )),
    })
}
