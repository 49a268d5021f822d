//! `act`: cancels, retries or reschedules jobs on the application's own connection. The function has the rights of the
//! schema's owner.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::Selected;

use crate::job_change::{JobChange, Verb};
use crate::pg::native::{native_query, sql};

pub(crate) struct ActQuery {
    action: &'static str,
    ids: Option<Vec<i64>>,
    tag: Option<String>,
    name: Option<String>,
    key: Option<String>,
    run_at: Option<DateTime<Utc>>,
}

impl ActQuery {
    pub(crate) fn new(change: JobChange) -> Self {
        let (mut ids, mut tag, mut name, mut key) = (None, None, None, None);
        match change.selected {
            Selected::Ids(given) => ids = Some(given),
            Selected::Tag(given) => tag = Some(given),
            Selected::Key(given) => (name, key) = (Some(given.name.into_owned()), Some(given.key)),
        }
        let run_at = if let Verb::Reschedule(at) = change.verb { Some(at) } else { None };
        Self { action: change.verb.as_str(), ids, tag, name, key, run_at }
    }
}

impl QueryFragment<Pg> for ActQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select jobs.act(" [self.action => Text] ", " [self.ids => Nullable<Array<BigInt>>] ", " [self.tag => Nullable<Text>] ", "
            [self.name => Nullable<Text>] ", " [self.key => Nullable<Text>] ", " [self.run_at => Nullable<Timestamptz>] ")"
        )
    }
}

native_query!(ActQuery -> Integer);

/// How many jobs were changed, from the rows of the answer.
pub(crate) fn changed(rows: &[i32]) -> usize {
    rows.iter().filter_map(|changed| usize::try_from(*changed).ok()).sum()
}
