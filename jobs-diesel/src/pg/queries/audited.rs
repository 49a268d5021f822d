//! `audit`: what operators did.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_query;
use diesel::sql_types::{Bool, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Action, AuditEntry, AuditRecord, RequestKey, UNNAMED_OPERATOR};

use crate::pg::advisory;
use crate::pg::native::{RawJson, sql};
use crate::pg::schema::audit;

/// The part of a statement that writes what it did into the audit. The statement has a common table expression with the
/// column `id` of the jobs that were changed.
pub(crate) struct Audited {
    /// The name of this common table expression.
    changed: &'static str,
    actor: String,
    action: &'static str,
    argument: Option<String>,
    /// A batch of an operation is not written: its start and its end are.
    is_written: bool,
}

/// Who does something, and whether it is written into the audit.
#[derive(Clone, Copy)]
pub(crate) struct Actor<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_audited: bool,
}

impl Actor<'_> {
    /// The name, unless the caller gave none.
    pub(crate) fn named(self) -> Option<String> {
        (self.name != UNNAMED_OPERATOR).then(|| self.name.to_owned())
    }
}

impl Audited {
    pub(crate) fn new(changed: &'static str, action: &Action, actor: Actor<'_>) -> Self {
        Self {
            changed,
            actor: actor.name.to_owned(),
            action: action.as_str(),
            argument: action.argument(),
            is_written: actor.is_audited,
        }
    }
}

impl QueryFragment<Pg> for Audited {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            ", audited as (
    insert into jobs.audit (actor, action, target, detail)
    select " [self.actor => Text] ", " [self.action => Text] ", case count(*) when 1 then 'job ' || min(id) else count(*) || ' jobs' end,
           json_strip_nulls(json_build_object('ids', json_agg(id order by id), 'argument', " [self.argument => Nullable<Text>] "::text))
    from " (self.changed) " having count(*) > 0 and " [self.is_written => Bool] "
)"
        )
    }
}

/// Writes one entry.
pub(crate) async fn record(conn: &mut AsyncPgConnection, entry: &AuditEntry) -> QueryResult<()> {
    let detail = (!entry.detail.is_null()).then_some(&entry.detail);
    super::audit::record(conn, &entry.actor, entry.action, &entry.target, detail).await
}

type Row = (i64, DateTime<Utc>, String, String, String, Option<RawJson>);

/// Returns the newest entries before this one, newest first.
pub(crate) async fn audit(
    conn: &mut AsyncPgConnection,
    before: Option<i64>,
    limit: i64,
) -> QueryResult<Vec<AuditRecord>> {
    let rows: Vec<Row> = audit::table
        .filter(audit::id.lt(before.unwrap_or(i64::MAX)))
        .order(audit::id.desc())
        .limit(limit)
        .select((audit::id, audit::at, audit::actor, audit::action, audit::target, audit::detail))
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(entry).collect())
}

fn entry((id, at, actor, action, target, detail): Row) -> AuditRecord {
    let detail = detail.and_then(|detail| serde_json::from_slice(&detail.0).ok());
    AuditRecord { id, at, actor, action, target, detail }
}

/// What was done before for this request. Until the caller's transaction ends, no other session does what a request
/// with a key asks for.
pub(crate) async fn before(conn: &mut AsyncPgConnection, key: &RequestKey) -> QueryResult<Option<AuditRecord>> {
    // The next statement sees what the session has committed that had the lock.
    sql_query(advisory::ONE_REQUEST).execute(conn).await?;
    // An operator of JSON would fail at an entry with an escaped NUL character.
    let has_key = diesel::dsl::sql::<Nullable<Bool>>("detail::text like ").bind::<Text, _>(format!("%{}%", key.text()));
    let rows: Vec<Row> = audit::table
        .filter(audit::id.gt(key.after()))
        .filter(has_key)
        .order(audit::id)
        .select((audit::id, audit::at, audit::actor, audit::action, audit::target, audit::detail))
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(entry).find(|record| key.is_of(record)))
}
