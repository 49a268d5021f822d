//! The language of the server's messages. Only a message shows that a lock was not available, because Diesel does not
//! pass on the SQLSTATE. So a worker's sessions get untranslated messages, if their role may set that: a superuser, or
//! from PostgreSQL 15 on a role with the privilege `set` on the parameter `lc_messages`.

use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use diesel_jobs_core::storage::Finding;

/// The statement that makes this session's messages untranslated, under a condition. It changes nothing if the role may
/// not set that. The setting is no start-up option, because a server refuses the connection of a role that may not use
/// an option.
fn untranslated(condition: &str) -> String {
    format!(
        "do $$ begin
            if current_setting('lc_messages') not in ('C', 'POSIX') and {condition} then
                perform set_config('lc_messages', 'C', false);
            end if;
        exception when insufficient_privilege then null; end $$;\n"
    )
}

/// For the worker's own sessions. If a pooler has dropped the settings of a session, other clients may use the session,
/// too.
pub(crate) fn of_own_session() -> String {
    untranslated("current_setting('plan_cache_mode') = 'force_generic_plan'")
}

/// For sessions that no other client uses.
pub(crate) fn of_kept_session() -> String {
    untranslated("true")
}

#[derive(QueryableByName)]
struct Spoken {
    #[diesel(sql_type = Text)]
    message: String,
    #[diesel(sql_type = Text)]
    setting: String,
    #[diesel(sql_type = Text)]
    repair: String,
}

/// Reports a session of the worker whose messages are translated nevertheless. The setting alone does not show it: the
/// server's environment may name a language, too. The error is caught, so that it is not in the server's log.
pub(crate) async fn examine(conn: &mut AsyncPgConnection) -> QueryResult<Option<Finding>> {
    let spoken = conn.transaction(async |conn| {
        conn.batch_execute(
            "do $$ begin perform 1 / 0; exception when division_by_zero then
                perform set_config('jobs.message', sqlerrm, true); end $$",
        )
        .await?;
        let spoken = diesel::sql_query(
            "select current_setting('jobs.message') as message, current_setting('lc_messages') as setting,
                format('alter role %I set lc_messages = ''C''', current_user) as repair",
        );
        RunQueryDsl::get_result::<Spoken>(spoken, conn).await
    });
    let Spoken { message, setting, repair } = spoken.await?;
    Ok((message != "division by zero").then(|| {
        Finding::warning(
            "language",
            format!(
                "the server translates its messages (lc_messages is {setting}), and this role may not change that: a handler that \
                 meets a lock which is not available loses an attempt"
            ),
            repair,
        )
    }))
}
