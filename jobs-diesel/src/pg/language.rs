//! The language of the server's messages. Only a message shows that a lock was not available, or that a statement has a
//! syntax error, because Diesel passes on neither the SQLSTATE nor the routine. So a worker's sessions get untranslated
//! messages, if their role may set that: a superuser, or from PostgreSQL 15 on a role with the privilege `set` on the
//! parameter `lc_messages`. Where it may not, lists of translations decide, or a new session ([`stale`](super::stale)).

use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
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

/// Whether this session's messages are translated. The setting alone does not show it: the server's environment may
/// name a language, too. The server describes the language `internal`, whose oid is fixed, as its messages do.
const IS_TRANSLATED: &str =
    "pg_catalog.pg_describe_object('pg_catalog.pg_language'::regclass, 12, 0) <> 'language internal'";

#[derive(QueryableByName)]
struct Spoken {
    #[diesel(sql_type = Text)]
    setting: String,
    #[diesel(sql_type = Text)]
    repair: String,
}

/// Reports a session of the worker whose messages are translated nevertheless.
pub(crate) async fn examine(conn: &mut AsyncPgConnection) -> QueryResult<Option<Finding>> {
    let spoken = diesel::sql_query(format!(
        "select current_setting('lc_messages') as setting, format('alter role %I set lc_messages = ''C''', current_user) as repair
         where {IS_TRANSLATED}"
    ));
    let spoken: Option<Spoken> = RunQueryDsl::get_result(spoken, conn).await.optional()?;
    Ok(spoken.map(|Spoken { setting, repair }| {
        Finding::warning(
            "language",
            format!(
                "the server translates its messages (lc_messages is {setting}), and this role may not change that: a worker cannot \
                 read which errors are mistakes in a statement, such as a syntax error, so at most once a minute it opens new sessions \
                 after such an error, and calls the handler once more"
            ),
            repair,
        )
    }))
}
