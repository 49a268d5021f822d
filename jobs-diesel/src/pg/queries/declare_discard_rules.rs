//! `declare_discard_rules`: stores what is enqueued when a job of a kind is discarded, or deletes it. Rules that are
//! stored already, and those that a live worker declares as they are stored, are only read, so that workers that start
//! at the same time do not wait for each other. Each rule has its own transaction, so none keeps another from being
//! stored, and two programs cannot deadlock. A row that another session has locked is passed over.
//!
//! The testing kit reads the rules of the code and not these rows: a test that stored them in its transaction would
//! keep other tests waiting.

use std::time::Duration;

use diesel::data_types::PgInterval;
use diesel::dsl::{delete, exists, select};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Interval, Json, Nullable, SmallInt, Text};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_jobs_core::storage::DiscardRules;
use diesel_jobs_core::{DiscardRule, Rules, WorkerId};
use uuid::Uuid;

use super::enqueue::delay;
use super::enqueue_unique::stored;
use super::tick::OF_ROW;
use super::worker::ticking;
use crate::pg::native::{RawJson, native_query, sql};
use crate::pg::patience::Patience;
use crate::pg::schema::{on_discarded, worker};

#[derive(Default)]
pub(crate) struct DeclareDiscardRulesQuery<'a> {
    kinds: Vec<&'a str>,
    enqueues: Vec<&'a str>,
    queues: Vec<&'a str>,
    priorities: Vec<i16>,
    max_attempts: Vec<i16>,
    args: Vec<RawJson>,
    arguments: Vec<&'a str>,
    rules: Vec<Option<RawJson>>,
    expires: Vec<Option<PgInterval>>,
}

impl<'a> DeclareDiscardRulesQuery<'a> {
    pub(crate) fn new(rules: &'a [DiscardRule]) -> Self {
        let mut query = Self::default();
        for rule in rules {
            query.kinds.push(&rule.kind);
            query.enqueues.push(&rule.enqueues);
            query.queues.push(&rule.queue);
            query.priorities.push(rule.priority);
            query.max_attempts.push(rule.max_attempts.cast_signed());
            query.args.push(RawJson(rule.args.as_bytes().to_vec()));
            query.arguments.push(&rule.argument);
            query.rules.push(stored(&rule.rules));
            query.expires.push(rule.expires.map(delay));
        }
        query
    }
}

const COLUMNS: &str = "kind, enqueues, queue, priority, max_attempts, args, argument, rules, expires";

impl QueryFragment<Pg> for DeclareDiscardRulesQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.on_discarded (" COLUMNS ")
        select " COLUMNS " from unnest(" [self.kinds => Array<Text>] ", " [self.enqueues => Array<Text>] ", " [self.queues => Array<Text>] ", "
        [self.priorities => Array<SmallInt>] ", " [self.max_attempts => Array<SmallInt>] ", " [self.args => Array<Json>] ", "
        [self.arguments => Array<Text>] ", " [self.rules => Array<Nullable<Json>>] ", " [self.expires => Array<Nullable<Interval>>] ") as declared (" COLUMNS ")
on conflict (kind) do update set (" COLUMNS ")
    = (excluded.kind, excluded.enqueues, excluded.queue, excluded.priority, excluded.max_attempts, excluded.args, excluded.argument,
       excluded.rules, excluded.expires)"
        )
    }
}

native_query!(DeclareDiscardRulesQuery<'a> -> ());

type Row = (String, String, String, i16, i16, RawJson, String, Option<RawJson>, Option<PgInterval>);

/// `None`: the row was changed by hand, and cannot be read.
fn rule_of(row: Row) -> Option<DiscardRule> {
    let (kind, enqueues, queue, priority, max_attempts, RawJson(args), argument, rules, expires) = row;
    Some(DiscardRule {
        kind,
        enqueues,
        queue,
        priority,
        max_attempts: u16::try_from(max_attempts).ok()?,
        args: String::from_utf8(args).ok()?,
        argument,
        rules: rules.map(|RawJson(rules)| Rules::read(&rules)).transpose().ok()?.unwrap_or_default(),
        expires: expires.map(span).transpose().ok()?,
    })
}

/// A span as this program stores it, without days and months.
fn span(interval: PgInterval) -> Result<Duration, ()> {
    match interval {
        PgInterval { microseconds, days: 0, months: 0 } => {
            u64::try_from(microseconds).map(Duration::from_micros).map_err(drop)
        }
        _ => Err(()),
    }
}

/// The rules, without those that live workers declare.
pub(crate) async fn stored_rules(conn: &mut AsyncPgConnection) -> QueryResult<DiscardRules> {
    let rows: Vec<Row> = on_discarded::table.load(conn).await?;
    let stored = rows.into_iter().map(|row| (row.0.clone(), rule_of(row))).collect();
    Ok(DiscardRules { stored, live: Vec::new() })
}

/// The rules, with those that live workers declare.
pub(crate) async fn rules(conn: &mut AsyncPgConnection) -> QueryResult<DiscardRules> {
    let stored = stored_rules(conn).await?.stored;
    let live: Vec<(Uuid, Option<RawJson>)> = ticking().select((worker::id, worker::discard_rules)).load(conn).await?;
    let read = |(id, text): (_, Option<RawJson>)| Some((WorkerId(id), serde_json::from_slice(&text?.0).ok()?));
    Ok(DiscardRules { stored, live: live.into_iter().filter_map(read).collect() })
}

/// Stores the rule of a kind, or deletes it. Returns `false` if it stays as it is: another session has locked its row,
/// or a live worker declares it so by now.
pub(crate) async fn declare(
    conn: &mut AsyncPgConnection,
    patience: &Patience,
    kind: &str,
    rule: Option<&DiscardRule>,
) -> QueryResult<bool> {
    // Copies, because an async closure that is `Send` cannot yet borrow anything besides the connection.
    let (kind, rule, limit) = (kind.to_owned(), rule.cloned(), patience.limit());
    conn.transaction(async move |conn| {
        conn.batch_execute(limit).await?;
        let row = on_discarded::table.find(&kind);
        let free = row.select(on_discarded::kind).for_update().skip_locked();
        let is_free = free.first::<String>(conn).await.optional()?.is_some();
        if !is_free && select(exists(row)).get_result(conn).await? {
            return Ok(false);
        }
        let rules = rules(conn).await?;
        if rules.stands(&kind, rule.as_ref()) || rules.is_kept(&kind) {
            return Ok(rules.stands(&kind, rule.as_ref()));
        }
        match &rule {
            Some(rule) => {
                RunQueryDsl::execute(DeclareDiscardRulesQuery::new(std::slice::from_ref(rule)), conn).await?;
            }
            None => {
                delete(row).execute(conn).await?;
            }
        }
        Ok(true)
    })
    .await
    .map_err(|error| patience.explained(error, OF_ROW))
}
